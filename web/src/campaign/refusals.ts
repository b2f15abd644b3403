// The refused asks of a budget and the sample of its impressions, as people read them.
import type { Budget, RecentRefusal, Refusals } from "../api/types";
import { sentence } from "../live/codes";
import { count } from "../ui/numbers";
import { OVER } from "../ui/status";

/** The reason of impressions that a campaign does not look for: no refusal. */
const UNWANTED = "targeting";
/** Below so many impressions that it wants, a share says nothing of the others. The node takes no reason from fewer, either. */
export const SAMPLE_MIN = 30;

/** What a sample of impressions tells. */
export interface Sample {
  /** Impressions in it that the campaign wants. */
  wanted: number;
  unwanted: number;
  rows: { reason: string; count: number }[];
}

export function sampleOf({ why, surveyed }: Refusals): Sample {
  const unwanted = why.find((row) => row.reason === UNWANTED)?.count ?? 0;
  return {
    wanted: Math.max(0, surveyed - unwanted),
    unwanted,
    rows: why.filter((row) => row.reason !== UNWANTED),
  };
}

const FIRST_REASONS = 2;

/** The largest reasons with their shares. One alone may be another in a minute. */
const largest = (rows: Sample["rows"], wanted: number): string =>
  [...rows]
    .sort((a, b) => b.count - a.count)
    .slice(0, FIRST_REASONS)
    .map(({ reason, count: seen }) => `${sentence(reason)} (${Math.round((seen / wanted) * 100)} %)`)
    .join("; ");

/** What kept a campaign from bidding more, with how much is known of it: no share is said of too few. */
export function keptFrom({ wanted, rows }: Sample): string {
  if (wanted < SAMPLE_MIN)
    return `What kept it from bidding more is sampled, and too little is known yet: ${count(wanted)} of ${SAMPLE_MIN} impressions that it wants.`;
  if (rows.length === 0)
    return `Nothing kept it from bidding more: it could bid for each of ${count(wanted)} sampled impressions that it wants.`;
  return `What kept it from bidding more: ${largest(rows, wanted)}, of ${count(wanted)} sampled impressions that it wants.`;
}

/** What became of its bids, or of its asks, in this run; null where nobody counts it. */
export function soFar({ campaign, holds }: Pick<Budget, "campaign" | "holds">): string | null {
  const { made, settled, late, open } = holds;
  if (made === null || settled === null) return null;
  const spent = settled + (late ?? 0);
  const [what, became] = campaign ? ["bids", "won and billed"] : ["granted asks", "settled"];
  if (made === 0) return `No ${what} in this run.`;
  const still = open === null || open === 0 ? "" : `, ${count(open)} still open`;
  return `${count(made)} ${what} in this run, ${count(spent)} of them ${became} (${Math.round((spent / made) * 100)} %)${still}.`;
}

/** How often each verdict is among them, most first. */
export function byVerdict(recent: readonly RecentRefusal[]): { verdict: string; count: number }[] {
  const counts = new Map<string, number>();
  for (const { verdict } of recent) counts.set(verdict, (counts.get(verdict) ?? 0) + 1);
  return [...counts].sort(([, a], [, b]) => b - a).map(([verdict, times]) => ({ verdict, count: times }));
}

/** What an empty list means: of `known` refused asks of the node none was this budget's. */
export function noneOf(known: number, campaign: boolean): string {
  const none =
    known === 0
      ? "The node has refused no ask since it started."
      : `None among the last ${count(known)} refused ${known === 1 ? "ask" : "asks"} of the node.`;
  return campaign
    ? `${none} Bids that it does not make are no asks: what kept it from bidding is counted, not listed.`
    : none;
}

/** Of one that is free to spend: what lets it go faster than its owner may think. Null where nothing does. */
export function whyFast(budget: Budget): string | null {
  if (budget.status !== "active" || Number(budget.spend_minute) <= 0) return null;
  if (budget.pacing === "asap")
    return `it follows no plan: asap lets everything through as it is asked for, up to its ${budget.daily === null ? "limit" : "daily limit"}`;
  if (budget.index_ppm !== null && budget.index_ppm > OVER * 1e6)
    return "it is ahead of its plan, which lets less through until the plan has caught up";
  return null;
}
