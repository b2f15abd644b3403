// What a change means in money, in words.
import type { Effect } from "../api/types";
import { moneyText } from "../money/money";
import type { Intent } from "./bulk";

/** What the change means in money, as a sentence, for budgets of one unit. */
export function effectWords(intent: Intent, line: Effect): string {
  const { action } = intent;
  const money = (text: string) => moneyText(BigInt(text), line.unit);
  if (action === "pause")
    return `Stops about ${money(line.spend_minute)} a minute; ${money(line.available_before)} stay unspent. Holds that are out stay valid.`;
  if (action === "resume") return `Lets up to ${money(line.available_before)} be spent again.`;
  if ("column" in intent && intent.column === "daily")
    return `Lifetime limits of ${money(line.limit_before)} stay; each day may spend up to the new daily limit.`;
  const more = BigInt(line.limit_after) - BigInt(line.limit_before);
  if (more === 0n) return `Limits of ${line.unit} budgets come to ${money(line.limit_after)} as before.`;
  return more > 0n
    ? `Lets up to ${money(more.toString())} more be spent.`
    : `Takes ${money((-more).toString())} away; what is spent already counts.`;
}
