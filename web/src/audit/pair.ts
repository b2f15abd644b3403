/** Fields of a budget as in the budgets file: amounts are decimal text. */
type Fields = Record<string, unknown>;

const shown = (value: unknown): string =>
  value === undefined || value === null ? "none" : typeof value === "string" ? value : JSON.stringify(value);

/** "limit 10.00 → 12.50, daily none → 1"; of a new budget only what it is, of one that ends that it does. */
export function pair(before: Fields, after: Fields): string {
  if (Object.keys(after).length === 0) return "ends";
  const made = Object.keys(before).length === 0;
  return [...new Set([...Object.keys(before), ...Object.keys(after)])]
    .map((field) => `${field} ${made ? "" : `${shown(before[field])} → `}${shown(after[field])}`)
    .join(", ");
}

/** What was done to a FIX session: its numbers before and after; or what was asked of its peer. */
export function sessionPair({ before, after }: { before: Fields; after: Fields }): string {
  const [numbers, asked] = "next_out" in after ? [before, after] : [{}, after];
  return Object.keys(asked).length === 0 ? "" : pair(numbers, asked);
}
