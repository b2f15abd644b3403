// The figures of all budgets, as columns. React never holds them: 50,000 row objects would cost the garbage collector
// more each tick than everything that is drawn.
import { PERIODS, STATES_ENTRY } from "./layout";

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
  "booked",
] as const;
/** Columns of counts that may be null. */
export const COUNTS = ["impressions", "clicks"] as const;
/** Columns of times. */
export const TIMES = ["since", "windowStart", "windowEnd", "dayEnds"] as const;
/** Windows, the shortest first; the index is the code of the period. */
export const WINDOWS = PERIODS;
/** All of them: columns of doubles. */
export const WIDE = [...AMOUNTS, ...TIMES, ...COUNTS] as const;
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
  /** Steps with each message of changes. */
  revision: number;
  /** What changed and was not looked at yet, of the whole table. */
  readonly changed: Changes;
}

/** Words of a row, as bits: those from 0 to 31, and those from 32 on. */
export interface Bits {
  low: number;
  high: number;
}

/** Rows that changed, and which of their words. Whoever takes them is the only one: the order that is shown. */
export class Changes {
  /** In the order of rows, once they are taken. */
  private readonly list: Uint32Array;
  private readonly low: Uint32Array;
  private readonly high: Uint32Array;
  private count = 0;

  constructor(rows: number) {
    this.list = new Uint32Array(rows);
    this.low = new Uint32Array(rows);
    this.high = new Uint32Array(rows);
  }

  add(row: number, low: number, high: number): void {
    if ((this.low[row]! | this.high[row]!) === 0) this.list[this.count++] = row;
    this.low[row]! |= low;
    this.high[row]! |= high;
  }

  /** Those in which one of these words changed. */
  with({ low, high }: Bits): Uint32Array {
    const found = new Uint32Array(this.count);
    let count = 0;
    for (let i = 0; i < this.count; i += 1) {
      const row = this.list[i]!;
      if (((this.low[row]! & low) | (this.high[row]! & high)) !== 0) found[count++] = row;
    }
    return found.subarray(0, count);
  }

  /** To be called before they are looked at: brings them into the order of rows. */
  sort(): void {
    this.list.subarray(0, this.count).sort();
  }

  clear(): void {
    for (let i = 0; i < this.count; i += 1) this.low[this.list[i]!] = this.high[this.list[i]!] = 0;
    this.count = 0;
  }
}

/** Where the words of windows begin: which there are; then four of each. */
export const PERIODS_WORD = STATES_ENTRY.bytes >> 2;
export const WINDOWS_WORD = PERIODS_WORD + 2;
const CODES = ["status", "reason", "topRefusal", "flags"] as const;
/** The field of the schema that fills a column. */
const fieldOf = (column: WideColumn | RateColumn): keyof typeof STATES_ENTRY =>
  (TIMES as readonly string[]).includes(column)
    ? (`${column}Ms` as keyof typeof STATES_ENTRY)
    : (column as keyof typeof STATES_ENTRY);
/** The first word of a column. */
export const wordOf = (column: WideColumn | RateColumn): number => STATES_ENTRY[fieldOf(column)] >> 2;

/** The words behind what may change by itself. */
export function bitsOf(
  columns: readonly (WideColumn | RateColumn | (typeof CODES)[number] | "windows")[],
): Bits {
  const bits = { low: 0, high: 0 };
  const set = (word: number) => {
    if (word < 32) bits.low |= 1 << word;
    else bits.high |= 1 << (word - 32);
  };
  for (const column of columns) {
    if (column === "windows") for (let word = PERIODS_WORD; word < 64; word += 1) set(word);
    else if ((CODES as readonly string[]).includes(column)) set(STATES_ENTRY.status >> 2);
    else {
      const word = wordOf(column as WideColumn | RateColumn);
      set(word);
      if ((WIDE as readonly string[]).includes(column)) set(word + 1);
    }
  }
  return bits;
}

/** The price of a thousand impressions; like the next two NaN without a divisor. */
export const cpmOf = (table: Table, row: number): number =>
  priceOf(table.booked[row]! * 1_000, table.impressions[row]!);
export const cpcOf = (table: Table, row: number): number => priceOf(table.booked[row]!, table.clicks[row]!);
export const ctrOf = (table: Table, row: number): number =>
  table.impressions[row]! > 0 ? Math.floor((table.clicks[row]! * 1e6) / table.impressions[row]!) / 1e6 : NaN;
const priceOf = (booked: number, count: number): number => (count > 0 ? Math.ceil(booked / count) : NaN);

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
    changed: new Changes(rows),
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

/** Which windows a row has from now on, as bits by period, and which of them refill all the time. New ones are of nothing. */
export function setPeriods(table: Table, row: number, there: number, buckets: number): void {
  const before = table.windowed[row]!;
  for (let period = 0; period < table.windows.length; period += 1) {
    const [was, is] = [(before >> period) & 1, (there >> period) & 1];
    if (was === is) continue;
    const columns = (table.windows[period] ??= windowColumns(table.rows));
    columns.limit[row] = columns.used[row] = is === 1 ? 0 : NaN;
  }
  table.windowed[row] = there;
  table.buckets[row] = buckets;
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
