// The latency heatmap: one column a poll, one row a bucket, ink by share. Pure: what to paint, not how.
import type { Latency } from "../api/types";

/** Bounds in microseconds; the last row is all above. */
export const HEAT_US = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 5_000, 20_000] as const;
export const HEAT_COLUMNS = 150;

/** Shares of a poll by row of HEAT_US, and one above. Buckets that straddle a bound count where they end. */
export function heatColumn(latency: Latency): number[] {
  const shares = new Array<number>(HEAT_US.length + 1).fill(0);
  const total = latency.buckets.reduce((sum, { count }) => sum + count, 0);
  if (total === 0) return shares;
  for (const { le_us, count } of latency.buckets) {
    const row = le_us === null ? -1 : HEAT_US.findIndex((bound) => le_us <= bound);
    shares[row < 0 ? HEAT_US.length : row]! += count / total;
  }
  return shares;
}

/** How dark a share is: a root, so that one in ten thousand is still seen. */
export const ink = (share: number): number => (share <= 0 ? 0 : Math.max(0.06, Math.min(1, share ** 0.35)));
