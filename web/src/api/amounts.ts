// Amounts of answers are decimal text in the budget's unit. This page counts in base units, as the live stream does: answers are turned
// into these where they come in.
import { baseText } from "../money/money";
import type { Budget, BulkAnswer, History } from "./types";

const OF_BUDGET = ["limit", "spent", "debt", "held", "available", "day_spent", "spend_minute"] as const;
const PERHAPS = ["window_budget", "window_planned", "window_spent", "daily", "cpm"] as const;

export function budgetInBase(budget: Budget): Budget {
  const base = (text: string) => baseText(text, budget.unit);
  const made = { ...budget };
  for (const field of OF_BUDGET) made[field] = base(budget[field]);
  for (const field of PERHAPS) {
    const text = budget[field];
    made[field] = text === null ? null : base(text);
  }
  const lines = Object.entries(budget.lines).map(([line, amount]) => [line, base(amount)] as const);
  made.lines = Object.fromEntries(lines) as Budget["lines"];
  made.windows = budget.windows.map((window) => ({
    ...window,
    limit: base(window.limit),
    used: base(window.used),
    left: base(window.left),
  }));
  return made;
}

export function historyInBase(history: History): History {
  const base = (text: string | null) => (text === null ? null : baseText(text, history.unit));
  return { ...history, spent: history.spent.map(base), planned: history.planned.map(base) };
}

export function bulkInBase(answer: BulkAnswer): BulkAnswer {
  const effect = answer.effect.map((line) => ({
    ...line,
    limit_before: baseText(line.limit_before, line.unit),
    limit_after: baseText(line.limit_after, line.unit),
    available_before: baseText(line.available_before, line.unit),
    spend_minute: baseText(line.spend_minute, line.unit),
  }));
  return { ...answer, effect };
}
