// The windows of one budget in a form: as its configuration has them, and the change that the form comes to.
import type { Period, WindowLimit, WindowLimits } from "../api/types";
import { PERIODS } from "../live/codes";
import { parseAmount, plainAmount } from "../money/money";

export interface WindowField {
  /** Empty: there is no such window. */
  limit: string;
  bucket: boolean;
}

export type WindowForm = Record<Period, WindowField>;

const fieldOf = (window: WindowLimit | undefined): WindowField =>
  typeof window === "object"
    ? { limit: window.limit, bucket: window.kind === "bucket" }
    : { limit: window ?? "", bucket: false };

/** Text as in a table: `month=1000.00;minute=10b`. */
function ofText(text: string): WindowLimits {
  const parts = text.split(";").map((part) => part.split("=").map((side) => side.trim()));
  return Object.fromEntries(
    parts
      .filter((part) => part.length === 2)
      .map(([period, limit]) => [
        period,
        limit!.endsWith("b") ? { limit: limit!.slice(0, -1).trim(), kind: "bucket" } : limit,
      ]),
  ) as WindowLimits;
}

/** The form of what is configured. */
export function windowForm(config: Record<string, unknown>): WindowForm {
  const written = config["windows"] ?? {};
  const windows = typeof written === "string" ? ofText(written) : (written as WindowLimits);
  return Object.fromEntries(PERIODS.map((period) => [period, fieldOf(windows[period])])) as WindowForm;
}

/** The periods that a form offers: the day has a field of its own, the daily limit, unless it is among the windows. */
export const periodsOf = (form: WindowForm): readonly Period[] =>
  PERIODS.filter((period) => period !== "day" || form.day.limit !== "");

/** All windows that the form says; null for none, a text for what is wrong. */
export function windowLimits(form: WindowForm, unit: string): WindowLimits | null | string {
  const windows: WindowLimits = {};
  for (const period of PERIODS) {
    const { limit, bucket } = form[period];
    if (limit.trim() === "") continue;
    const amount = parseAmount(limit, unit);
    if (amount === null || amount < 0n) return `The limit of a ${period} is an amount in ${unit}, or empty.`;
    const text = plainAmount(amount, unit);
    windows[period] = bucket ? { limit: text, kind: "bucket" } : text;
  }
  return Object.keys(windows).length === 0 ? null : windows;
}

/** The windows from now on; undefined where they stay. */
export function windowChange(
  before: WindowForm,
  after: WindowForm,
  unit: string,
): WindowLimits | null | undefined | string {
  const [old, now] = [windowLimits(before, unit), windowLimits(after, unit)];
  if (typeof now === "string") return now;
  return JSON.stringify(old) === JSON.stringify(now) ? undefined : now;
}

/** The periods that fields bind, as they stand before or after a change; `daily` is the window of a day. */
const bound = (fields: Record<string, unknown>): Period[] => {
  const form = windowForm(fields);
  return PERIODS.filter(
    (period) => form[period].limit !== "" || (period === "day" && typeof fields["daily"] === "string"),
  );
};

/** The periods of which a change takes the limit away; the node asks for one more word then. A budget that ends loses none. */
export function periodsGone(before: Record<string, unknown>, after: Record<string, unknown>): Period[] {
  if (!("windows" in after) && !("daily" in after)) return [];
  const left = bound(after);
  return bound(before).filter((period) => !left.includes(period));
}
