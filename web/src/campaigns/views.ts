// Views with a name: those that everybody needs, and one's own, kept in this browser. A view is the text of its address.

export interface NamedView {
  name: string;
  /** As behind the question mark. */
  text: string;
}

/** Questions that people who own budgets ask every day. */
export const COMMON: readonly NamedView[] = [
  { name: "All, by spend", text: "" },
  { name: "Behind plan", text: "f=pace%3A..0.95%3Bstatus%3Aactive%2Climited&sort=pace" },
  { name: "Ahead of plan", text: "f=pace%3A1.05..%3Bstatus%3Aactive%2Climited&sort=-pace" },
  { name: "Cannot spend", text: "f=status%3Ano_purse%2Cerror&sort=-since" },
  { name: "Limited, by reason", text: "f=status%3Alimited&sort=reason%2C-spent" },
  {
    name: "With debt",
    text: "f=flags%3Adebt&sort=-debt&cols=name*%2Cstatus%2Cspent%2Climit%2Cavailable%2Cunit%2Cdebt%2Cid",
  },
  {
    name: "Windows nearly used up",
    text: "f=tightest%3A0.9..&sort=-tightest&cols=name*%2Cstatus%2Ctightest%2Cminute%2Chour%2Cday%2Cweek%2Cmonth%2Cunit%2Cid",
  },
  {
    name: "By template",
    text: "sort=template%2C-spent&cols=template%2Cname*%2Cstatus%2Cspent%2Climit%2Ctightest%2Cunit%2Cid",
  },
  { name: "Paused", text: "f=status%3Apaused&sort=-since" },
  {
    name: "Flight ends soon",
    text: "f=status%3Aactive%2Climited&sort=end&cols=name*%2Cid%2Cstatus%2Cend%2Cpace%2Cspend%2Cspent%2Climit%2Cavailable%2Cunit",
  },
];

const KEY = "weir.views";
const MOST = 50;

const isView = (one: unknown): one is NamedView =>
  typeof one === "object" &&
  one !== null &&
  typeof (one as NamedView).name === "string" &&
  typeof (one as NamedView).text === "string";

/** What another release wrote must not break the page. */
export function parseViews(text: string | null): NamedView[] {
  try {
    const found: unknown = JSON.parse(text ?? "[]");
    return Array.isArray(found) ? found.filter(isView).slice(0, MOST) : [];
  } catch {
    return [];
  }
}

export const ownViews = (): NamedView[] => parseViews(localStorage.getItem(KEY));

/** A name stands for one view: the last one saved. */
export const withView = (views: readonly NamedView[], view: NamedView): NamedView[] =>
  [...views.filter(({ name }) => name !== view.name), view].slice(-MOST);

export const keepViews = (views: readonly NamedView[]): void =>
  localStorage.setItem(KEY, JSON.stringify(views));
