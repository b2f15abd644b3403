// Why more was settled than was held, and what to do about it. Most of it is meant; what alarms is money beyond the limit.
import type { Budget } from "../api/types";
import { parsed } from "./text";

/** Less than nothing remains: spent and held exceed the limit. */
export const isOverLimit = ({ available }: Budget): boolean => Number(available) < 0;

/** Its line of the budgets file says that a hold is less than the price. */
function holdsExpected({ file }: Budget): boolean {
  const line = file?.text == null ? null : (parsed(file.text) as { hold?: { expected?: unknown } } | null);
  return line?.hold?.expected !== undefined;
}

/** A sentence or two for each kind of debt that it has. */
export function debtReasons(budget: Budget): string[] {
  const { over_settled, late, unknown_order } = budget.lines;
  const above = holdsExpected(budget)
    ? 'A hold of this campaign is the expected cost of a bid ("hold": {"expected": …}), so a win settles above its hold. That is meant. ' +
      'Where the limit is a promise, let it hold the whole price: "hold": "full".'
    : "Bills came above the amount that was held. Let whoever asks reserve the most that it can cost.";
  const after =
    "Bills came when their hold was gone. Longer holds, or notices that come sooner, avoid that; late_reserve_bp keeps money for them.";
  const strange = "Executions came for orders that nobody opened here.";
  const reasons: [string, string][] = [
    [over_settled, above],
    [late, after],
    [unknown_order, strange],
  ];
  const found = reasons.filter(([spent]) => BigInt(spent) > 0n).map(([, reason]) => reason);
  if (found.length === 0) return [];
  return [
    ...found,
    isOverLimit(budget)
      ? "It took the budget beyond its limit: nothing is granted until something comes back, or the limit is raised."
      : "It is spent like the rest, and the budget is within its limit.",
  ];
}
