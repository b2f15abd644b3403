// What a bulk dialog has to be sure of before it sends; the request itself.
import type { Action, Bulk, Changes, Period, Select } from "../api/types";
import { STILL } from "../grid/columns";
import type { Model } from "../grid/model";
import { PERIODS } from "../live/codes";
import { parseAmount, plainAmount } from "../money/money";
import { filterText } from "../url/view";

/** Above so many rows their number has to be typed. */
export const TYPED_ABOVE = 100;
const WHY_LEAST = 3;

export type Intent =
  { action: "pause" | "resume" } | { action: "set" | "scale"; column: LimitColumn; text: string };

/** What a bulk can change: the limit, the daily limit, or the limit of a window. */
export type LimitColumn = "limit" | "daily" | Period;

export const LIMIT_COLUMNS: readonly [LimitColumn, string][] = [
  ["limit", "Limit"],
  ["daily", "Daily limit"],
  ...PERIODS.map((period): [LimitColumn, string] => [period, `Window of a ${period}`]),
];

const isPeriod = (column: LimitColumn): column is Period => column !== "limit" && column !== "daily";

/** By filter when all are meant, so that 50,000 ids need not travel; by id where the filter would match others a second later. */
export function selectOf(model: Model): Select {
  const { selection, table, view } = model;
  const idOf = (row: number) => table!.ids[row]!;
  if (!selection.all || view.terms.some(({ column }) => !STILL.has(column)))
    return { ids: Array.from(model.selectedRows(), idOf) };
  return { filter: filterText(view.terms), q: view.query, except: selection.named().map(idOf) };
}

/** Whole percents and up to four decimals, as millionths: 110 -> 1,100,000. */
export function parsePercent(text: string): number | null {
  const match = /^(\d{1,4})(?:[.,](\d{1,4}))?$/.exec(text.trim());
  if (match === null) return null;
  const ppm = Number(match[1]) * 10_000 + Number((match[2] ?? "").padEnd(4, "0"));
  return ppm > 0 ? ppm : null;
}

/** The changes meant, or what is wrong with what was typed. */
export function changesOf(intent: Intent, units: readonly string[]): Changes | string | null {
  if (!("column" in intent)) return null;
  if (intent.action === "scale") {
    const ppm = parsePercent(intent.text);
    if (ppm === null) return "A percentage, as 110 or 87.5.";
    return isPeriod(intent.column)
      ? { window_ppm: { [intent.column]: ppm } }
      : { [`${intent.column}_ppm`]: ppm };
  }
  if (units.length !== 1)
    return "These budgets have different units; set one unit at a time, or change by percent.";
  const amount = parseAmount(intent.text, units[0]!);
  if (amount === null || amount < 0n) return `An amount in ${units[0]}, as 1250.00.`;
  const limit = plainAmount(amount, units[0]!);
  return isPeriod(intent.column) ? { window: { [intent.column]: limit } } : { [intent.column]: limit };
}

export function bulkOf(
  action: Action,
  changes: Changes | null,
  select: Select,
  expected: number,
  why: string,
  dryRun: boolean,
): Bulk {
  return { action, select, expected, why, dry_run: dryRun, ...(changes === null ? {} : { changes }) };
}

/** What still keeps the button from being pressed; null if nothing. */
export function missing(rows: number, typed: string, why: string): string | null {
  if (rows === 0) return "No budget is selected.";
  if (why.trim().length < WHY_LEAST) return "Say why; it goes to the audit log.";
  const digits = typed.replace(/[\s,.\u202f]/g, "");
  return rows > TYPED_ABOVE && digits !== String(rows) ? `Type ${rows} to confirm.` : null;
}
