// Tables for tests: rows with the few figures a test is about, the rest plain.
import { PERIODS } from "../src/live/codes";
import { type Table, emptyTable, setWindow } from "../src/live/table";

export interface Row {
  name?: string;
  handle?: string;
  template?: string;
  /** By period: used, limit, and whether it is a bucket. */
  windows?: Partial<Record<(typeof PERIODS)[number], [number, number, boolean?]>>;
  unit?: string;
  zone?: string;
  status?: number;
  flags?: number;
  spent?: number;
  limit?: number;
  planned?: number;
  windowSpent?: number;
  spendMinute?: number;
  end?: number;
}

export function tableOf(rows: readonly Row[]): Table {
  const table = emptyTable(rows.length);
  rows.forEach((row, i) => {
    table.ids[i] = String(100 + i);
    table.idNumbers[i] = 100 + i;
    table.names[i] = row.name ?? `row ${i}`;
    table.handles[i] = row.handle ?? "";
    table.templates[i] = row.template ?? "";
    PERIODS.forEach((period, code) => {
      const window = row.windows?.[period];
      if (window !== undefined) setWindow(table, i, code, window[2] ?? false, window[1], window[0]);
    });
    table.units[i] = row.unit ?? "USD";
    table.zones[i] = row.zone ?? "UTC";
    table.status[i] = row.status ?? 0;
    table.flags[i] = row.flags ?? 0;
    table.spent[i] = row.spent ?? 0;
    table.limit[i] = row.limit ?? 0;
    table.windowPlanned[i] = row.planned ?? NaN;
    table.windowSpent[i] = row.windowSpent ?? 0;
    table.spendMinute[i] = row.spendMinute ?? 0;
    table.end[i] = row.end ?? NaN;
  });
  return table;
}

/** A small deterministic source of numbers from 0 to 1. */
export function numbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 4_294_967_296;
  };
}

export const allRows = (table: Table): Uint32Array => Uint32Array.from({ length: table.rows }, (_, i) => i);
