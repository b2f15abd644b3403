// The figures of all budgets, as columns. React never holds them: 50,000 row objects would cost the garbage collector
// more each tick than everything that is drawn.

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
  /** Steps with each change of the row, so that drawing can skip what stands. */
  readonly version: Uint32Array;
  /** Steps with each delta. */
  revision: number;
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
