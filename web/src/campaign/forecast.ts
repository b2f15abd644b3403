// When a budget would be spent at the pace of late. An estimate for people: it never touches money.

export type Forecast =
  { ends: "never" } | { ends: "spent"; atMs: number } | { ends: "flight"; leftUnspent: number };

/** `perMs` in base units a millisecond; `endMs` null where the flight is open. */
export function forecast(available: number, perMs: number, nowMs: number, endMs: number | null): Forecast {
  const spentAt = perMs > 0 ? nowMs + Math.max(0, available) / perMs : Infinity;
  if (endMs !== null && spentAt > endMs)
    return { ends: "flight", leftUnspent: Math.max(0, available - perMs * Math.max(0, endMs - nowMs)) };
  return Number.isFinite(spentAt) ? { ends: "spent", atMs: spentAt } : { ends: "never" };
}

/** Mean spend over the last steps that are known, from sums since the window's start. */
export function lateRate(
  timesMs: readonly number[],
  sums: readonly (number | null)[],
  steps: number,
): number {
  const known = timesMs
    .map((ms, i) => [ms, sums[i] ?? NaN] as const)
    .filter(([, sum]) => !Number.isNaN(sum))
    .slice(-steps - 1);
  const [first, last] = [known[0], known.at(-1)];
  if (first === undefined || last === undefined || last[0] <= first[0]) return 0;
  // A new window begins at nothing: then the rate since its start is what is known.
  const from = last[1] >= first[1] ? first[1] : 0;
  return (last[1] - from) / (last[0] - first[0]);
}
