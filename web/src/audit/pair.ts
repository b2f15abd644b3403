import { grouped } from "../money/money";
import { count } from "../ui/numbers";

/** Fields of a budget as in the budgets file: amounts are decimal text. */
type Fields = Record<string, unknown>;

const AMOUNTS = ["limit", "daily"];

/** Decimal text with thin spaces between thousands; other text as it is. */
function groupedAmount(text: string): string {
  const match = /^(-?)(\d+)(\.\d+)?$/.exec(text);
  if (match === null) return text;
  const [, sign = "", whole = "", decimals = ""] = match;
  return `${sign === "" ? "" : "−"}${grouped(whole)}${decimals}`;
}

function shown(field: string, value: unknown, unit: string | null): string {
  if (value === undefined || value === null) return "none";
  if (typeof value !== "string" && typeof value !== "number") return JSON.stringify(value);
  if (!AMOUNTS.includes(field)) return String(value);
  return groupedAmount(String(value)) + (unit === null ? "" : ` ${unit}`);
}

/** "limit 9 000.00 USD → 12 500.00 USD, daily none → 1.00 USD"; of a new budget only what it is, of one that ends that it does. */
export function pair(before: Fields, after: Fields, unit: string | null = null): string {
  if (Object.keys(after).length === 0) return "ends";
  const made = Object.keys(before).length === 0;
  return [...new Set([...Object.keys(before), ...Object.keys(after)])]
    .map((field) => {
      const was = made ? "" : `${shown(field, before[field], unit)} → `;
      return `${field} ${was}${shown(field, after[field], unit)}`;
    })
    .join(", ");
}

/** What was done to a FIX session: its numbers before and after; or what was asked of its peer. */
export function sessionPair({ before, after }: { before: Fields; after: Fields }): string {
  const [numbers, asked] = "next_out" in after ? [before, after] : [{}, after];
  return Object.keys(asked).length === 0 ? "" : pair(numbers, asked);
}

/** "2 changed, 1 ended, 5 added": what a load of the budgets file did. */
export function filePair({
  added,
  changed,
  ended,
}: {
  added: number;
  changed: number;
  ended: number;
}): string {
  const parts: [number, string][] = [
    [changed, "changed"],
    [ended, "ended"],
    [added, "added"],
  ];
  return parts
    .filter(([number]) => number > 0)
    .map(([number, word]) => `${count(number)} ${word}`)
    .join(", ");
}
