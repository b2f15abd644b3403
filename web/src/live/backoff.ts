const FIRST_MS = 500;
const MOST_MS = 4_000;

/** How long to wait before attempt `n` (from 0). Half of it is jitter, or all pages would come back at once. */
export function waitMs(attempt: number, random: number): number {
  const full = Math.min(MOST_MS, FIRST_MS * 2 ** attempt);
  return full / 2 + (full / 2) * random;
}
