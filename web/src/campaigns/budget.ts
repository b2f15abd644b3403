// What the form for a new budget holds, and the request it becomes.
import type { NewBudget } from "../api/types";
import { PACINGS } from "../live/codes";
import { parseAmount, plainAmount } from "../money/money";

export interface BudgetForm {
  id: string;
  name: string;
  unit: string;
  limit: string;
  daily: string;
  zone: string;
  /** As the browser's date field has it, in UTC; empty: open. */
  start: string;
  end: string;
  pacing: string;
  why: string;
}

export const EMPTY_FORM: BudgetForm = {
  id: "",
  name: "",
  unit: "USD",
  limit: "",
  daily: "",
  zone: "UTC",
  start: "",
  end: "",
  pacing: PACINGS[0],
  why: "",
};

const WHY_LEAST = 3;
const ID_MOST = 2n ** 64n - 1n;
const isId = (text: string): boolean => /^(0|[1-9]\d{0,19})$/.test(text) && BigInt(text) <= ID_MOST;
const isUnit = (text: string): boolean => /^([A-Z]{3}|count)$/.test(text);
const instant = (local: string): string => `${local}:00Z`;

/** The request, or what is missing first. */
export function budgetOf(form: BudgetForm): NewBudget | string {
  const unit = form.unit.trim();
  if (!isId(form.id.trim())) return "The id is a whole number that no other budget has.";
  if (form.name.trim() === "") return "Give it a name.";
  if (!isUnit(unit)) return "The unit is a currency, as USD, or count.";
  const limit = parseAmount(form.limit, unit);
  if (limit === null || limit < 0n) return `The limit is an amount in ${unit}.`;
  const daily = form.daily.trim() === "" ? null : parseAmount(form.daily, unit);
  if (form.daily.trim() !== "" && (daily === null || daily < 0n))
    return `The daily limit is an amount in ${unit}, or empty.`;
  if (form.start !== "" && form.end !== "" && form.end <= form.start)
    return "The flight ends before it begins.";
  if (form.why.trim().length < WHY_LEAST) return "Say why; it goes to the audit log.";
  return {
    id: form.id.trim(),
    name: form.name.trim(),
    unit,
    limit: plainAmount(limit, unit),
    tz: form.zone,
    pacing: form.pacing,
    ...(daily === null ? {} : { daily: plainAmount(daily, unit) }),
    ...(form.start === "" ? {} : { start: instant(form.start) }),
    ...(form.end === "" ? {} : { end: instant(form.end) }),
  };
}
