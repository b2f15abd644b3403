// What the form for a new budget holds, and the request it becomes.
import type { NewBudget } from "../api/types";
import { PACINGS } from "../live/codes";
import type { Table } from "../live/table";
import { parseAmount, plainAmount } from "../money/money";
import { HANDLE_WORDS, isHandle, isMade } from "../url/handle";

export interface BudgetForm {
  id: string;
  name: string;
  /** Its unique text name; empty: none. */
  handle: string;
  unit: string;
  limit: string;
  daily: string;
  zone: string;
  /** As the browser's date field has it, in UTC; empty: open. */
  start: string;
  end: string;
  pacing: string;
  /** Id of the budget that binds it too; empty: none. */
  parent: string;
  why: string;
}

export const EMPTY_FORM: BudgetForm = {
  id: "",
  name: "",
  handle: "",
  unit: "USD",
  limit: "",
  daily: "",
  zone: "UTC",
  start: "",
  end: "",
  pacing: PACINGS[0],
  parent: "",
  why: "",
};

/** What each plan does, in the words of docs/pacing.md. */
export const PLAN_WORDS: Record<(typeof PACINGS)[number], string> = {
  asap: "Lets everything through; only limits hold.",
  schedule: "On while its spend is behind its plan, off while it is not.",
  coin: "A share of the requests takes part, the same for all kinds.",
  curve: "Multiplies every bid by one factor; of asks, lets that share through.",
  steer: "As curve, with the factor worked out anew from what is left and what a day costs.",
  auto: "As steer where it is known what impressions cost, else as curve.",
};

/**
 * The id above all that somebody chose, those of ended budgets too: an id is never used twice. Null where none is left between them and
 * those of budgets made from templates.
 */
export function freeId(ids: readonly string[]): string | null {
  // Ids have no leading zeros: of two, the longer is the higher.
  const chosen = ids.filter((id) => id.length < MADE_DIGITS || !isMade(id));
  const highest = chosen.reduce(
    (most, id) => (id.length > most.length || (id.length === most.length && id > most) ? id : most),
    "0",
  );
  const next = BigInt(highest) + 1n;
  return isMade(next.toString()) ? null : next.toString();
}

/** Digits of the first id that templates give. */
const MADE_DIGITS = 19;

/** Budgets to propose as a parent: those whose id begins with, or whose name or handle holds, what was typed. */
export function parentsFor(
  table: Pick<Table, "ids" | "names" | "handles" | "units">,
  typed: string,
  unit: string,
  most = 20,
): { id: string; name: string }[] {
  const wanted = typed.trim().toLowerCase();
  const found = [];
  for (let row = 0; row < table.ids.length && found.length < most; row += 1) {
    const [id, name] = [table.ids[row]!, table.names[row]!];
    const texts = `${name}\n${table.handles[row]!}`.toLowerCase();
    if (table.units[row] === unit && (id.startsWith(wanted) || texts.includes(wanted)))
      found.push({ id, name });
  }
  return found;
}

const WHY_LEAST = 3;
const ID_MOST = 2n ** 64n - 1n;
const isId = (text: string): boolean => /^(0|[1-9]\d{0,19})$/.test(text) && BigInt(text) <= ID_MOST;
const isUnit = (text: string): boolean => /^([A-Z]{3}n?|count)$/.test(text);
const instant = (local: string): string => `${local}:00Z`;

/** The request, or what is missing first. */
export function budgetOf(form: BudgetForm): NewBudget | string {
  const unit = form.unit.trim();
  if (!isId(form.id.trim())) return "The id is a whole number that no other budget has.";
  if (form.name.trim() === "") return "Give it a name.";
  const handle = form.handle.trim();
  if (handle !== "" && !isHandle(handle)) return `A handle is ${HANDLE_WORDS}.`;
  if (!isUnit(unit)) return "The unit is a currency, as USD, or count.";
  const limit = parseAmount(form.limit, unit);
  if (limit === null || limit < 0n) return `The limit is an amount in ${unit}.`;
  const daily = form.daily.trim() === "" ? null : parseAmount(form.daily, unit);
  if (form.daily.trim() !== "" && (daily === null || daily < 0n))
    return `The daily limit is an amount in ${unit}, or empty.`;
  if (form.start !== "" && form.end !== "" && form.end <= form.start)
    return "The flight ends before it begins.";
  const parent = form.parent.trim();
  if (parent !== "" && !isId(parent)) return "The parent is the id of a budget, or empty.";
  if (parent !== "" && parent === form.id.trim()) return "No budget is its own parent.";
  if (isMade(form.id.trim())) return "Ids from 2^62 on are those of budgets made from templates.";
  if (form.why.trim().length < WHY_LEAST) return "Say why; it goes to the audit log.";
  return {
    id: form.id.trim(),
    name: form.name.trim(),
    ...(handle === "" ? {} : { handle }),
    unit,
    limit: plainAmount(limit, unit),
    tz: form.zone,
    pacing: form.pacing,
    ...(parent === "" ? {} : { parent }),
    ...(daily === null ? {} : { daily: plainAmount(daily, unit) }),
    ...(form.start === "" ? {} : { start: instant(form.start) }),
    ...(form.end === "" ? {} : { end: instant(form.end) }),
  };
}
