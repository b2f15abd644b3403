// A forecast in words, from what the node answers.
import type { Budget, History } from "../api/types";
import { moneyText } from "../money/money";
import { span } from "../ui/time";
import { dateAfter, dayNumber, nextDayMs } from "./days";
import { type Ahead, type Forecast, type Range, DATA_MIN_MS, forecast, observe } from "./forecast";

export interface Outlook {
  value: string;
  notes: string[];
}

/** What of the day and of the flight is still to come. */
export function aheadOf(budget: Budget, nowMs: number): Ahead {
  const dayEndsMs = budget.day_ends_ms ?? nextDayMs(nowMs, budget.tz);
  const dayLeftMs = Math.max(0, dayEndsMs - nowMs);
  if (budget.end_ms === null) return { dayLeftMs, daysAfter: null, lastPart: 1 };
  const daysAfter = Math.max(
    0,
    dayNumber(budget.end_ms - 1, budget.tz) - dayNumber(dayEndsMs - 1, budget.tz),
  );
  const lastPart =
    daysAfter === 0
      ? Math.min(1, Math.max(0, budget.end_ms - nowMs) / Math.max(1, dayLeftMs))
      : Math.min(1, Math.max(0, budget.end_ms - dayEndsMs - (daysAfter - 1) * 86_400_000) / 86_400_000);
  return { dayLeftMs, daysAfter, lastPart };
}

/** Why nothing can be said, whatever was spent. */
function still(budget: Budget, nowMs: number): string | null {
  if (budget.end_ms !== null && budget.end_ms <= nowMs) return "Its flight is over.";
  if (budget.start_ms !== null && budget.start_ms > nowMs) return "Its flight has not begun.";
  if (budget.status === "paused") return "It is paused, and spends nothing.";
  if (budget.status === "ended") return "It is ended, and spends nothing.";
  if (Number(budget.available) <= 0) return "Nothing is left to spend.";
  return null;
}

const both = (low: string, high: string): string => (low === high ? low : `${low} to ${high}`);

function amounts({ low, high }: Range, unit: string): string {
  const text = (amount: number) => moneyText(BigInt(Math.round(amount)), unit).replace(` ${unit}`, "");
  return `${both(text(low), text(high))} ${unit}`;
}

function reachedWords({ reached }: Forecast, budget: Budget, nowMs: number): string {
  const { soonest, latest, soonestMs } = reached;
  if (soonest === null)
    return budget.end_ms === null ? "no end of its money is in sight" : "its limit is not reached";
  if (soonest === 0 && soonestMs !== null) return `its limit is reached in ${span(soonestMs)} at the soonest`;
  const day = (days: number) => (days === 0 ? "today" : dateAfter(nowMs, budget.tz, days));
  if (latest === null) return `its limit is reached ${day(soonest)} at the soonest, perhaps never`;
  return `its limit is reached ${both(day(soonest), day(latest))}`;
}

/** `above`: the budgets above it, nearest first; null while they are not known. */
export function outlook(
  budget: Budget,
  above: readonly Budget[] | null,
  history: History | null,
  nowMs: number,
): Outlook {
  const none = (note: string): Outlook => ({ value: "–", notes: [note] });
  const stands = still(budget, nowMs);
  if (stands !== null) return none(stands);
  if (history === null || above === null) return none("No history yet.");
  const hasPlan = budget.pacing !== "asap" && budget.window_planned !== null && budget.window_budget !== null;
  const sample = (ms: number, spent: string, planned: string | null) => ({
    ms,
    spent: Number(spent),
    planned: hasPlan && planned !== null ? Number(planned) : null,
  });
  const kept = history.t_ms.flatMap((ms, i) => {
    const spent = history.spent[i] ?? null;
    return spent === null || ms > nowMs ? [] : [sample(ms, spent, history.planned[i] ?? null)];
  });
  const last = sample(nowMs, budget.window_spent ?? budget.spent, budget.window_planned);
  const { ms, rate } = observe([...kept, last], hasPlan);
  if (ms < DATA_MIN_MS)
    return none(`A forecast needs 30 minutes of data; there are ${Math.floor(ms / 60_000)}.`);
  const levels = [budget, ...above].map((one) => ({
    available: Number(one.available),
    daily: one.daily === null ? null : Number(one.daily),
    daySpent: Number(one.day_spent),
  }));
  const plan = hasPlan
    ? {
        budget: Number(budget.window_budget),
        planned: Number(budget.window_planned),
        spent: Number(budget.window_spent),
        daily: budget.daily !== null,
      }
    : null;
  const found = forecast(levels, plan, aheadOf(budget, nowMs), rate);
  const { unit } = budget;
  const toEnd = found.toEnd === null ? null : amounts(found.toEnd, unit);
  const notes = [
    reachedWords(found, budget, nowMs),
    `${hasPlan ? "as it followed its plan in" : "at the mean rate of"} the last ${span(ms)}`,
  ];
  if (found.today === null)
    return { value: toEnd ?? "–", notes: ["more by the end of its flight", ...notes] };
  const end = toEnd === null ? [] : [`${toEnd} more by the end of its flight`];
  return { value: `${amounts(found.today, unit)} today`, notes: [...end, ...notes] };
}
