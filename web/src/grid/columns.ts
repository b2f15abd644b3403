// What the grid knows of its columns: how to sort, filter and find them. How a cell is drawn stands in cells.ts.
import { FLAG_NAMES, PACINGS, PERIODS, REASONS, STATUSES, VERDICTS } from "../live/codes";
import {
  type Bits,
  type RateColumn,
  type Table,
  type WideColumn,
  bitsOf,
  cpcOf,
  cpmOf,
  ctrOf,
  paceOf,
  tightestWindow,
  windowPart,
} from "../live/table";
import { inUnits } from "../money/money";
import { DEBT_WORDS } from "../ui/status";

/** As the API calls a code that says nothing. */
export const NONE = "none";

export type Kind = "text" | "set" | "range" | "amount";

export interface Column {
  key: string;
  title: string;
  /** One sentence for the header's tooltip and the column menu. */
  about: string;
  kind: Kind;
  width: number;
  /** Its width in a narrow window, where it differs. */
  narrow?: number;
  align: "start" | "end";
  shown: boolean;
  /** What it is sorted by. */
  value(table: Table, row: number): number;
  /** What of a row it is of: where other words change, it stays. Without, only another snapshot changes it. */
  bits?: Bits;
  /** The same by row, where the table has it as it is. */
  doubles?(table: Table): Float64Array;
  /** Text columns and sets: what it is filtered by. */
  text?(table: Table, row: number): string;
  /** Sets with words known beforehand. */
  codes?: readonly string[];
  /** Cannot be pinned: drawn on one canvas under the cells. */
  canvas?: boolean;
}

const amount = (key: string, column: WideColumn, title: string, about: string, shown = true): Column => ({
  key,
  title,
  about,
  kind: "amount",
  width: 112,
  narrow: 104,
  align: "end",
  shown,
  value: (table, row) => table[column][row]!,
  bits: bitsOf([column]),
  doubles: (table) => table[column],
});
/** A price, which is no amount of its own. */
const price = (key: string, title: string, about: string, value: Column["value"], of: WideColumn): Column => {
  const { doubles: _, ...column } = amount(key, "booked", title, about, false);
  return { ...column, value, bits: bitsOf(["booked", of]) };
};
const rate = (key: string, column: RateColumn, title: string, about: string): Column => ({
  key,
  title,
  about,
  kind: "range",
  width: 92,
  align: "end",
  shown: false,
  value: (table, row) => table[column][row]! / 100,
  bits: bitsOf([column]),
});

/** What people call alphabetical, as one plain string: without accents and case, and 9 before 10. A collator takes five times as long. */
export const sortText = (text: string): string =>
  text
    .normalize("NFKD")
    .replace(/\p{M}/gu, "")
    .toLowerCase()
    .replace(/\d+/g, (digits) => digits.padStart(20, "0"));

/** Ranks of texts, computed when first sorted by. */
const ranks = new WeakMap<Table, Map<string, Float64Array>>();

function rankOf(table: Table, key: string, texts: readonly string[]): Float64Array {
  const known = ranks.get(table) ?? new Map<string, Float64Array>();
  ranks.set(table, known);
  const old = known.get(key);
  if (old !== undefined) return old;
  const distinct = [...new Set(texts)]
    .map((text) => [sortText(text), text] as const)
    .sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
  const rank = new Map<string, number>();
  distinct.forEach(([sorted, text], i) =>
    rank.set(text, i > 0 && distinct[i - 1]![0] === sorted ? rank.get(distinct[i - 1]![1])! : i),
  );
  const made = Float64Array.from(texts, (text) => rank.get(text)!);
  known.set(key, made);
  return made;
}

const text = (
  key: string,
  title: string,
  about: string,
  width: number,
  texts: (table: Table) => readonly string[],
  kind: Kind,
  shown = true,
): Column => ({
  key,
  title,
  about,
  kind,
  width,
  align: "start",
  shown,
  value: (table, row) => rankOf(table, key, texts(table))[row]!,
  doubles: (table) => rankOf(table, key, texts(table)),
  text: (table, row) => texts(table)[row]!,
});

const set = (
  key: string,
  title: string,
  about: string,
  width: number,
  codes: readonly string[],
  code: (table: Table, row: number) => number,
  shown: boolean,
  bits?: Bits,
): Column => ({
  key,
  title,
  about,
  kind: "set",
  width,
  align: "start",
  shown,
  codes: codes.map((word) => word || NONE),
  value: code,
  ...(bits && { bits }),
  text: (table, row) => codes[code(table, row)] || NONE,
});

/** The part of a window that is used: of all currencies alike, and first is what stops first. */
const window = (key: string, title: string, about: string, value: Column["value"]): Column => ({
  key,
  title,
  about: `${about}, of its limit. Sorted and filtered by the part that is used: 1 is all of it`,
  kind: "range",
  width: key === "tightest" ? 216 : 168,
  align: "end",
  shown: false,
  value,
  bits: bitsOf(["windows"]),
});

/** Status, reason, refusal and flags: they share a word. */
const CODES = bitsOf(["status"]);

/** The period of a window column; null of any other column. */
export function periodOf({ key }: Column): number | null {
  const period = (PERIODS as readonly string[]).indexOf(key);
  return period < 0 ? null : period;
}

/** Those shown at first fit into a window of 1,440 pixels, and with their narrow widths into one of 1,280. */
export const COLUMNS: readonly Column[] = [
  { ...text("name", "Budget", "Its name; Enter opens it", 220, (table) => table.names, "text"), narrow: 166 },
  {
    key: "id",
    title: "Id",
    about: "The budget's id",
    kind: "text",
    width: 72,
    align: "end",
    shown: true,
    value: (table, row) => table.idNumbers[row]!,
    doubles: (table) => table.idNumbers,
    text: (table, row) => table.ids[row]!,
  },
  {
    ...set(
      "status",
      "Status",
      "What it does, what stands in its way, and for how long",
      200,
      STATUSES,
      (table, row) => table.status[row]!,
      true,
      CODES,
    ),
    narrow: 168,
  },
  {
    key: "pace",
    title: "Pace",
    about: "Spent over planned by now; the tick is the plan, 1.00 is on it",
    kind: "range",
    width: 130,
    narrow: 116,
    align: "start",
    shown: true,
    value: paceOf,
    bits: bitsOf(["windowPlanned", "windowSpent"]),
  },
  {
    key: "spend",
    title: "Spend /min",
    about: "Spent in the last minute, by which it is sorted; the curve is of ten minutes",
    kind: "amount",
    width: 130,
    align: "end",
    shown: true,
    canvas: true,
    value: (table, row) => table.spendMinute[row]!,
    bits: bitsOf(["spendMinute"]),
    doubles: (table) => table.spendMinute,
  },
  amount("spent", "spent", "Spent", "Settled, over-settled and late, in its life"),
  amount("limit", "limit", "Limit", "What may be spent in its life"),
  amount("available", "available", "Remaining", "Of the limit, neither spent nor in holds"),
  text("unit", "Unit", "Currency, or count", 56, (table) => table.units, "set"),
  amount("held", "held", "Held", "Set aside in holds", false),
  {
    ...amount(
      "day_spent",
      "daySpent",
      "Today",
      "Spent today, of its daily limit, and what is left of the day in its zone",
    ),
    width: 232,
    narrow: 212,
  },
  window("tightest", "Tightest window", "Used of the window that is nearest to its end", (table, row) => {
    const period = tightestWindow(table, row);
    return period < 0 ? NaN : windowPart(table, period, row);
  }),
  ...PERIODS.map((period, code) =>
    window(
      period,
      `In its ${period}`,
      `Used of its window of a ${period}, or of the bucket that refills in one`,
      (table, row) => windowPart(table, code, row),
    ),
  ),
  amount("daily", "daily", "Daily limit", "What may be spent in one civil day of its zone", false),
  amount("planned", "windowPlanned", "Planned by now", "What its plan would have spent by now", false),
  amount(
    "window_spent",
    "windowSpent",
    "Spent of plan",
    "What the plan counts as spent in its window",
    false,
  ),
  amount("debt", "debt", "Debt", DEBT_WORDS, false),
  {
    ...amount("impressions", "impressions", "Impressions", "Billed, since they are counted", false),
    kind: "range",
  },
  {
    ...amount("clicks", "clicks", "Clicks", "Of its impressions; – where none are counted", false),
    kind: "range",
  },
  {
    key: "ctr",
    title: "CTR",
    about: "Clicks by impression: 0.01 is one of a hundred",
    kind: "range",
    width: 92,
    align: "end",
    shown: false,
    value: ctrOf,
    bits: bitsOf(["impressions", "clicks"]),
  },
  price("cpm", "CPM", "What a thousand impressions cost", cpmOf, "impressions"),
  price("cpc", "CPC", "What a click cost", cpcOf, "clicks"),
  rate("asks", "asks", "Asks /s", "Asks per second, mean of 10 s"),
  rate("grants", "grants", "Grants /s", "Of these granted"),
  { ...rate("refusals", "refusals", "Refusals /s", "Of these refused, and why most were"), width: 150 },
  set(
    "reason",
    "Reason",
    "Why it does not spend as planned",
    130,
    REASONS,
    (table, row) => table.reason[row]!,
    false,
    CODES,
  ),
  set(
    "top_refusal",
    "Top refusal",
    "The verdict that most refusals had",
    130,
    VERDICTS,
    (table, row) => table.topRefusal[row]!,
    false,
    CODES,
  ),
  {
    key: "flags",
    title: "Flags",
    about: "Debt (spent without a hold), limit below what is out, changed by hand",
    kind: "set",
    width: 110,
    align: "start",
    shown: false,
    codes: FLAG_NAMES,
    value: (table, row) => table.flags[row]! & 13,
    bits: CODES,
    text: (table, row) => FLAG_NAMES.filter((_, bit) => (table.flags[row]! >> bit) & 1).join(","),
  },
  {
    key: "since",
    title: "Since",
    about: "How long status and reason stand",
    kind: "range",
    width: 96,
    align: "end",
    shown: false,
    value: (table, row) => table.since[row]!,
    bits: bitsOf(["since"]),
    doubles: (table) => table.since,
  },
  {
    key: "end",
    title: "Flight ends",
    about: "First instant after its flight",
    kind: "range",
    width: 168,
    align: "start",
    shown: false,
    value: (table, row) => table.end[row]!,
    doubles: (table) => table.end,
  },
  text("zone", "Zone", "IANA time zone of its days", 148, (table) => table.zones, "set", false),
  set(
    "pacing",
    "Pacing",
    "How spend is kept on its plan",
    92,
    PACINGS,
    (table, row) => table.pacing[row]!,
    false,
  ),
  {
    ...text("handle", "Handle", "Its unique text name", 190, (table) => table.handles, "text", false),
  },
  {
    ...text(
      "template",
      "Template",
      "The template that it was made from, by which it can be grouped and filtered",
      190,
      (table) => table.templates,
      "set",
      false,
    ),
    text: (table, row) => table.templates[row] || NONE,
  },
];

/** Columns that only another snapshot changes. */
export const STILL: ReadonlySet<string> = new Set([
  "id",
  "name",
  "handle",
  "template",
  "unit",
  "zone",
  "pacing",
]);

const BY_KEY = new Map(COLUMNS.map((column) => [column.key, column]));

export const columnOf = (key: string): Column | undefined => BY_KEY.get(key);

/** What a range filter compares: amounts in units, as people type them. */
export function rangeValue(column: Column, table: Table, row: number): number {
  const value = column.value(table, row);
  return column.kind === "amount" ? inUnits(value, table.units[row]!) : value;
}
