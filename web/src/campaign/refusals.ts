// The last refused asks of a budget, as people read them.
import type { RecentRefusal } from "../api/types";
import { sentence, words } from "../live/codes";
import { count } from "../ui/numbers";

const WORDS: Record<string, string> = {
  bad_amount: "the amount was zero, negative or too large",
  unit_mismatch: "asked for in another unit",
  not_started: "its flight had not begun",
  ended: "its flight was over",
  paused: "paused by its owner",
  paced: "the plan said not now",
  exhausted: "nothing was left of a limit",
  day_exhausted: "nothing was left of a daily limit",
  purse_empty: "the worker's share was used up for the moment",
  pod_refused: "another of its pod was refused",
  id_reused: "the request id was used before",
  busy: "a bounded queue was full",
  journal: "the journal could not seal",
};

/** Of auctions. Those that are reasons of a status, too, have their words there. */
const AUCTION: Record<string, string> = {
  outbid: "another campaign of this node went before it",
  currency: "the currency, or a floor's, is not taken",
  seat: "its seat may not bid there",
  deal: "only deals that it does not have",
  budget: "its budget is spent, paused or out of its flight",
  insecure: "its creatives are not HTTPS",
  exclusive: "it had another impression of the request",
  group: "the rest of the pod could not be filled",
  deadline: "there was no time left",
};

/** What keeps a campaign from bidding. */
export const auctionWords = (reason: string): string => AUCTION[reason] ?? sentence(reason);

/** What a verdict means. */
export const refusalWords = (verdict: string): string => WORDS[verdict] ?? words(verdict);

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
