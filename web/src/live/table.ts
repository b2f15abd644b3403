// The figures of all budgets, as columns. React never holds them: 50,000 row objects would cost the garbage collector
// more each tick than everything that is drawn.
import { PERIODS } from "./layout";

/** Columns of amounts. */
export const AMOUNTS = [
  "limit",
  "spent",
  "debt",
  "held",
  "available",
  "windowBudget",
  "windowPlanned",
  "windowSpent",
  "daily",
  "daySpent",
  "spendMinute",
] as const;
/** Columns of times. */
export const TIMES = ["since", "windowStart", "windowEnd", "dayEnds"] as const;
/** Windows, the shortest first; the index is the code of the period. */
export const WINDOWS = PERIODS;
/** Both: columns of doubles. */
export const WIDE = [...AMOUNTS, ...TIMES] as const;
/** Rates in hundredths per second. */
export const RATES = ["asks", "grants", "refusals", "topRefusals"] as const;

export type WideColumn = (typeof WIDE)[number];
export type RateColumn = (typeof RATES)[number];

export interface Table extends Record<WideColumn, Float64Array>, Record<RateColumn, Uint32Array> {
  readonly rows: number;
  readonly ids: string[];
  /** For sorting only: beyond 2^53 rounded. */
  readonly idNumbers: Float64Array;
  readonly names: string[];
  /** Unique text names; empty where there is none. */
  readonly handles: string[];
  /** The pattern of the template that it was made from; empty where it was made from none. */
  readonly templates: string[];
  readonly parents: (string | null)[];
  readonly units: string[];
  readonly zones: string[];
  readonly start: Float64Array;
  readonly end: Float64Array;
  readonly pacing: Uint8Array;
  readonly campaign: Uint8Array;
  readonly status: Uint8Array;
  readonly reason: Uint8Array;
  readonly topRefusal: Uint8Array;
  readonly flags: Uint8Array;
  /** By period: the limit of its window, and what of it is used; NaN where it has none. Columns are there once a row has one. */
  readonly windows: (WindowColumns | null)[];
  /** Bit by period: its window is there... */
  readonly windowed: Uint8Array;
  /** ...and refills all the time. */
  readonly buckets: Uint8Array;
  /** Live budgets made from templates that have no row. */
  hidden: number;
  /** Steps with each change of the row, so that drawing can skip what stands. */
  readonly version: Uint32Array;
  /** Steps with each delta. */
  revision: number;
}

export interface WindowColumns {
  readonly limit: Float64Array;
  readonly used: Float64Array;
}

const wideColumns = (rows: number) =>
  Object.fromEntries(WIDE.map((name) => [name, new Float64Array(rows)])) as Record<WideColumn, Float64Array>;
const rateColumns = (rows: number) =>
  Object.fromEntries(RATES.map((name) => [name, new Uint32Array(rows)])) as Record<RateColumn, Uint32Array>;

export function emptyTable(rows: number): Table {
  const bytes = () => new Uint8Array(rows);
  return {
    rows,
    ids: new Array<string>(rows).fill(""),
    idNumbers: new Float64Array(rows),
    names: new Array<string>(rows).fill(""),
    handles: new Array<string>(rows).fill(""),
    templates: new Array<string>(rows).fill(""),
    windows: PERIODS.map(() => null),
    windowed: bytes(),
    buckets: bytes(),
    hidden: 0,
    parents: new Array<string | null>(rows).fill(null),
    units: new Array<string>(rows).fill(""),
    zones: new Array<string>(rows).fill(""),
    start: new Float64Array(rows),
    end: new Float64Array(rows),
    pacing: bytes(),
    campaign: bytes(),
    status: bytes(),
    reason: bytes(),
    topRefusal: bytes(),
    flags: bytes(),
    version: new Uint32Array(rows),
    revision: 0,
    ...wideColumns(rows),
    ...rateColumns(rows),
  };
}

/** The pace index; NaN while nothing is planned. */
export function paceOf(table: Table, row: number): number {
  const planned = table.windowPlanned[row]!;
  return planned > 0 ? table.windowSpent[row]! / planned : NaN;
}

/** The part of a window that is used: 1 is all of it; NaN without such a window. */
export function windowPart(table: Table, period: number, row: number): number {
  const columns = table.windows[period];
  return columns == null ? NaN : columns.used[row]! / columns.limit[row]!;
}

/** The window of which the largest part is used: its period's code, -1 where there is none. */
export function tightestWindow(table: Table, row: number): number {
  let [tightest, most] = [-1, -Infinity];
  for (let period = 0, bits = table.windowed[row]!; bits !== 0; period += 1, bits >>= 1) {
    if ((bits & 1) === 0) continue;
    const part = windowPart(table, period, row);
    if (!(part <= most)) [tightest, most] = [period, part];
  }
  return tightest;
}

/** Puts a window there. */
export function setWindow(
  table: Table,
  row: number,
  period: number,
  bucket: boolean,
  limit: number,
  used: number,
): void {
  const columns = (table.windows[period] ??= windowColumns(table.rows));
  columns.limit[row] = limit;
  columns.used[row] = used;
  table.windowed[row]! |= 1 << period;
  if (bucket) table.buckets[row]! |= 1 << period;
}

const windowColumns = (rows: number): WindowColumns => ({
  limit: new Float64Array(rows).fill(NaN),
  used: new Float64Array(rows).fill(NaN),
});

/** Takes all windows of a row away: most have none. */
export function clearWindows(table: Table, row: number): void {
  for (let period = 0, bits = table.windowed[row]!; bits !== 0; period += 1, bits >>= 1) {
    const columns = table.windows[period];
    if (columns == null) continue;
    columns.limit[row] = NaN;
    columns.used[row] = NaN;
  }
  table.windowed[row] = 0;
  table.buckets[row] = 0;
}

type Numbers = Float64Array | Uint32Array | Uint8Array;

/** The first rows as a table of their own. Figures are shared; texts are not, as what is known of a column is kept with its array. */
export function headOf(table: Table, rows: number): Table {
  const first = <T extends Numbers>(column: T) => column.subarray(0, rows) as T;
  const cut = Object.entries(table).map(([name, column]) => [
    name,
    ArrayBuffer.isView(column)
      ? first(column as Numbers)
      : Array.isArray(column)
        ? column.slice(0, rows)
        : column,
  ]);
  const windows = table.windows.map((of) => of && { limit: first(of.limit), used: first(of.used) });
  return { ...(Object.fromEntries(cut) as Table), windows, rows };
}
