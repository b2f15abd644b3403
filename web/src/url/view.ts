// A view is a link: search, filter, sort and columns stand in the address, in the grammar of docs/api.md section 1.
import { COLUMNS, type Column, columnOf } from "../grid/columns";
import type { Term } from "../grid/filter";
import type { SortKey } from "../grid/sort";

export type Order = "steady" | "live" | "freeze";
export type Density = "compact" | "roomy";
export type Clock = "utc" | "campaign" | "browser";

export interface ShownColumn {
  key: string;
  width: number;
  pinned: boolean;
}

export interface View {
  query: string;
  terms: readonly Term[];
  sort: readonly SortKey[];
  columns: readonly ShownColumn[];
  order: Order;
  density: Density;
  clock: Clock;
  /** What of the link was not understood; nothing is changed in bulk or saved while there is any. */
  unread: readonly Unread[];
}

export const DEFAULT_COLUMNS: readonly ShownColumn[] = COLUMNS.filter((column) => column.shown).map(
  ({ key, width }) => ({ key, width, pinned: key === "name" }),
);

export const DEFAULT_VIEW: View = {
  query: "",
  terms: [],
  sort: [{ column: "spend", descending: true }],
  columns: DEFAULT_COLUMNS,
  order: "steady",
  density: "compact",
  clock: "campaign",
  unread: [],
};

/** Escapes what the grammar uses. encodeURIComponent leaves the tilde alone. */
const escape = (text: string): string => encodeURIComponent(text).replaceAll("~", "%7E");

function unescape(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    // A hand-made link with a lone %: take it as it stands.
    return text;
  }
}

export function termText(term: Term): string {
  switch (term.is) {
    case "set":
      return `${term.column}:${term.codes.map(escape).join(",")}`;
    case "range":
      return `${term.column}:${term.least ?? ""}..${term.most ?? ""}`;
    case "text":
      return `${term.column}:~${escape(term.text)}`;
  }
}

export const filterText = (terms: readonly Term[]): string => terms.map(termText).join(";");
export const sortText = (keys: readonly SortKey[]): string =>
  keys.map((key) => (key.descending ? "-" : "") + key.column).join(",");

/** A part of a link that says nothing to this page: a mistyped one, or one of another release. */
export interface Unread {
  /** The parameter that it stands in: `f`, `sort`, or one that no view has. */
  part: string;
  text: string;
  /** What would have been understood in its place. */
  expected: string;
}

type Read<T> = T | { expected: string };
const isUnread = (read: Read<object>): read is { expected: string } => "expected" in read;
const expecting = (expected: string) => ({ expected });

function parseRange(column: string, body: string): Read<Term> {
  const match = /^(-?\d+(?:\.\d+)?)?\.\.(-?\d+(?:\.\d+)?)?$/.exec(body);
  if (match === null || (match[1] === undefined && match[2] === undefined))
    return expecting(`a range, as ${column}:0.5..2 or ${column}:10..`);
  const number = (text: string | undefined) => (text === undefined ? null : Number(text));
  return { column, is: "range", least: number(match[1]), most: number(match[2]) };
}

function parseSet(column: Column, body: string): Read<Term> {
  const codes = body.split(",").map(unescape);
  const known = column.codes;
  if (known === undefined || codes.every((code) => known.includes(code)))
    return { column: column.key, is: "set", codes };
  return expecting(`some of ${known.join(", ")}`);
}

/** A term, or what would have been one. */
export function readTerm(text: string): Read<Term> {
  const colon = text.indexOf(":");
  const column = columnOf(text.slice(0, Math.max(0, colon)));
  const body = text.slice(colon + 1);
  if (column === undefined)
    return expecting(`one of the columns ${COLUMNS.map(({ key }) => key).join(", ")}, and a colon`);
  if (column.kind === "range" || column.kind === "amount") return parseRange(column.key, body);
  if (body === "" || body === "~") return expecting(`something behind ${column.key}:`);
  return body.startsWith("~")
    ? { column: column.key, is: "text", text: unescape(body.slice(1)) }
    : parseSet(column, body);
}

function readSort(text: string): Read<SortKey> {
  const key = { column: text.replace(/^-/, ""), descending: text.startsWith("-") };
  return columnOf(key.column) === undefined
    ? expecting(
        `one of the columns ${COLUMNS.map((column) => column.key).join(", ")}, with - for the largest first`,
      )
    : key;
}

const parts = (text: string | null, separator: string): string[] =>
  (text ?? "").split(separator).filter((part) => part !== "");

/** What was understood, and what was not. */
function readAll<T extends object>(
  part: string,
  texts: string[],
  read: (text: string) => Read<T>,
): [known: T[], unread: Unread[]] {
  const all = texts.map((text) => [text, read(text)] as const);
  return [
    all.flatMap(([, found]) => (isUnread(found) ? [] : [found as T])),
    all.flatMap(([text, found]) => (isUnread(found) ? [{ part, text, ...found }] : [])),
  ];
}

export const parseFilter = (text: string | null): Term[] => readAll("f", parts(text, ";"), readTerm)[0];

/** `name*250` is pinned, `pace168` has a width of its own. */
const columnText = (shown: ShownColumn): string =>
  `${shown.key}${shown.pinned ? "*" : ""}${shown.width === columnOf(shown.key)!.width ? "" : shown.width}`;
export const columnsText = (columns: readonly ShownColumn[]): string => columns.map(columnText).join(",");

const WIDTH_LEAST = 48;
const WIDTH_MOST = 800;
export const boundedWidth = (width: number): number =>
  Math.round(Math.min(WIDTH_MOST, Math.max(WIDTH_LEAST, width)));

function parseColumn(text: string): ShownColumn | null {
  const match = /^([a-z_]+)(\*?)(\d{0,3})$/.exec(text);
  const column = match === null ? undefined : columnOf(match[1]!);
  if (match === null || column === undefined) return null;
  const width = match[3] === "" ? column.width : boundedWidth(Number(match[3]));
  return { key: column.key, width, pinned: match[2] === "*" && column.canvas !== true };
}

export function parseColumns(text: string | null): readonly ShownColumn[] {
  const found = parts(text, ",")
    .map(parseColumn)
    .filter((column) => column !== null);
  const once = found.filter((column, i) => found.findIndex((other) => other.key === column.key) === i);
  return once.length === 0 ? DEFAULT_COLUMNS : once;
}

const oneOf = <T extends string>(text: string | null, among: readonly T[], otherwise: T): T =>
  among.find((word) => word === text) ?? otherwise;

const PARTS = ["q", "f", "filter", "sort", "cols", "order", "rows", "clock"];

/** The filter stands in `f`; `filter`, as the API calls it, is understood too and written as `f`. */
const filterOf = (from: URLSearchParams): string => [...from.getAll("f"), ...from.getAll("filter")].join(";");

/** Reads a link. What of its filter or sort is not understood is kept apart, and said: without it, more rows are shown than were meant. */
export function parseView(search: string): View {
  const from = new URLSearchParams(search);
  const [terms, unreadTerms] = readAll("f", parts(filterOf(from), ";"), readTerm);
  const [keys, unreadKeys] = readAll("sort", parts(from.get("sort"), ","), readSort);
  const others = [...from].filter(([part]) => !PARTS.includes(part));
  return {
    query: from.get("q") ?? "",
    terms,
    sort: from.has("sort")
      ? keys.filter((key, i) => keys.findIndex((other) => other.column === key.column) === i)
      : DEFAULT_VIEW.sort,
    columns: parseColumns(from.get("cols")),
    order: oneOf(from.get("order"), ["steady", "live", "freeze"], DEFAULT_VIEW.order),
    density: oneOf(from.get("rows"), ["compact", "roomy"], DEFAULT_VIEW.density),
    clock: oneOf(from.get("clock"), ["utc", "campaign", "browser"], DEFAULT_VIEW.clock),
    unread: [
      ...unreadTerms,
      ...unreadKeys,
      ...others.map(([part, text]) => ({ part, text, expected: `one of ${PARTS.join(", ")}` })),
    ],
  };
}

/** The view with these changes. A new filter of the same column stands in the place of one that was not understood; so does a new sort. */
export function changedView(view: View, changes: Partial<View>): View {
  const columns = new Set(changes.terms?.map(({ column }) => column));
  const isReplaced = ({ part, text }: Unread): boolean =>
    part === "sort" ? changes.sort !== undefined : part === "f" && columns.has(text.split(":")[0]!);
  const unread = view.unread.some(isReplaced) ? view.unread.filter((one) => !isReplaced(one)) : view.unread;
  return { ...view, unread, ...changes };
}

/** Views do not change, and each click asks several times. */
const texts = new WeakMap<View, string>();

/** Only what differs from the default: a plain address stays plain. */
export function viewText(view: View): string {
  const known = texts.get(view) ?? textOf(view);
  texts.set(view, known);
  return known;
}

function textOf(view: View): string {
  const to = new URLSearchParams();
  const put = (name: string, text: string, plain: string) => text !== plain && to.set(name, text);
  put("q", view.query, "");
  const unread = (part: string) => view.unread.filter((one) => one.part === part).map(({ text }) => text);
  const joined = (known: string, part: string, separator: string) =>
    [known, ...unread(part)].filter((text) => text !== "").join(separator);
  put("f", joined(filterText(view.terms), "f", ";"), "");
  put("sort", joined(sortText(view.sort), "sort", ","), sortText(DEFAULT_VIEW.sort));
  put("cols", columnsText(view.columns), columnsText(DEFAULT_COLUMNS));
  put("order", view.order, DEFAULT_VIEW.order);
  put("rows", view.density, DEFAULT_VIEW.density);
  put("clock", view.clock, DEFAULT_VIEW.clock);
  for (const { part, text } of view.unread) if (part !== "f" && part !== "sort") to.append(part, text);
  return to.toString();
}
