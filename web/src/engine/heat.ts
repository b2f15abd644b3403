// The engine room's figures: what they are of a node's answer. The latency heatmap: one column a poll, one row a bucket, ink
// by share. Pure: what to paint, not how.
import type { Door, Latency } from "../api/types";
import { words } from "../live/codes";
import { micros } from "../ui/numbers";

/** The verdicts by which money is set aside: asks of the batch door, requests of the OpenRTB door. */
const GRANTS: readonly string[] = ["granted", "bid"];

export const grantedPerS = (doors: readonly Door[]): number =>
  doors
    .flatMap(({ verdicts }) => verdicts)
    .filter(({ verdict }) => GRANTS.includes(verdict))
    .reduce((sum, { per_s }) => sum + per_s, 0);

/** Was anything of the door measured in the last seconds? One turn of a worker in many is. */
export const answeredLately = ({ buckets }: Latency): boolean => buckets.some(({ count }) => count > 0);

/** Why a door has no latency. */
export const unmeasured = ({ verdicts }: Door): string =>
  verdicts.some(({ per_s }) => per_s > 0)
    ? "None of its answers of the last 10 s was among the measured ones, so there is no latency."
    : "Nothing was answered in the last 10 s, so there is no latency.";

/** Of a door of which nothing was measured there is no latency, which is not one of nothing. */
export const quantile = (latency: Latency, us: number): string =>
  answeredLately(latency) ? micros(us) : "–";

/** Refused frames are called `frame_` and their reason, of which some begin with the word, too. */
export const errorWords = (code: string): string => words(code).replace(/^frame frame /, "frame ");

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
