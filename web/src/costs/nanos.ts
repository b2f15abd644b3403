// Times of the cost sheet as people read them.
import type { CostRow, Costs, Nanos } from "../api/types";

/** Three digits that mean something. */
export function nanos(ns: number | null): string {
  if (ns === null || !Number.isFinite(ns)) return "–";
  if (Math.abs(ns) >= 10_000_000) return `${(ns / 1e6).toFixed(1)} ms`;
  if (Math.abs(ns) >= 10_000) return `${(ns / 1000).toFixed(1)} µs`;
  return `${ns.toFixed(Math.abs(ns) >= 100 ? 0 : 1)} ns`;
}

export function reading(value: Nanos): string {
  if (value === null) return "–";
  return "ns" in value ? nanos(value.ns) : `< ${nanos(value.below_ns)}`;
}

/** For the length of a bar: what is below the timer's sight counts as half of it. */
export function middle(value: Nanos): number | null {
  if (value === null) return null;
  return "ns" in value ? value.ns : value.below_ns / 2;
}

/** Whether another way is dearer is told only where its interval leaves no doubt. */
export function ratioWords({ ratio, ratio_low, ratio_high }: NonNullable<CostRow["alternative"]>): string {
  const text = `${ratio.toFixed(ratio >= 10 ? 0 : 2)} ×`;
  if (ratio_low > 1) return `${text} ours`;
  return ratio_high < 1 ? `${text} ours, cheaper` : `${text}, no difference`;
}

/** What passes whatever comes is counted a second, not a request. */
export const isFixed = (row: CostRow): boolean => row.per.unit === "second";

/** Of all groups, ns per second: without rows that are parts of others. */
export const fixedNanos = (groups: Costs["groups"]): number =>
  groups
    .flatMap(({ rows }) => rows)
    .filter((row) => isFixed(row) && row.depth === 0)
    .reduce((sum, row) => sum + (middle(row.per_request) ?? 0), 0);

/** Farther apart nobody can balance them; a node of this release says so itself. */
const BALANCE_MAX = 0.1;
const NO_BALANCE = "NO BALANCE";

/** The share that is not accounted for, or why there is none. */
export function noBalance({ totals, notes }: Costs): { share: number | null; why: string[] } {
  const share = totals.unaccounted_share;
  const why = notes.filter((note) => note.startsWith(NO_BALANCE));
  return { share: share !== null && Math.abs(share) <= BALANCE_MAX ? share : null, why };
}

export const otherNotes = ({ notes }: Costs): string[] =>
  notes.filter((note) => !note.startsWith(NO_BALANCE));
