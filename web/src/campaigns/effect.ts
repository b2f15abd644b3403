// What a change means in money and in pacing, in words.
import type { BulkRow, Effect } from "../api/types";
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
  if ("column" in intent && intent.column !== "limit")
    return `Lifetime limits of ${money(line.limit_before)} stay; each ${intent.column} may spend up to the new limit of its window.`;
  const more = BigInt(line.limit_after) - BigInt(line.limit_before);
  if (more === 0n) return `Limits of ${line.unit} budgets come to ${money(line.limit_after)} as before.`;
  return more > 0n
    ? `Lets up to ${money(more.toString())} more be spent.`
    : `Takes ${money((-more).toString())} away; what is spent already counts.`;
}

/** What each kind of edit does to pacing. */
const PACING = {
  pause: "Pacing keeps what it has learned until they are resumed.",
  resume: "Pacing continues with what it learned before the pause.",
  set: "Pacing continues unchanged where the day’s target (the smaller of the daily limit and what the plan asks of the day) stays the same; where it changes, a new plan begins now, and the price level is learned anew for some minutes.",
} as const;

export const pacingWords = (kind: keyof typeof PACING): string => PACING[kind];

/** What taking a record back does to a budget: `end` to one that it made, `begin` to one that it ended. */
export type UndoKind = "end" | "begin" | "pause" | "resume" | "limit" | "daily" | "other";

function kindOf({ before, after }: BulkRow): UndoKind[] {
  if (Object.keys(after).length === 0) return ["end"];
  if (Object.keys(before).length === 0) return ["begin"];
  return Object.keys(after).map((field) => {
    if (field === "status") return after[field] === "paused" ? "pause" : "resume";
    return field === "limit" || field === "daily" ? field : "other";
  });
}

/** What the rows that will change go through, each kind once. */
export const undoKinds = (rows: readonly BulkRow[]): UndoKind[] => [
  ...new Set(rows.filter(({ result }) => result === "changed").flatMap(kindOf)),
];

/** Of budgets that are so new that nothing is known of their money yet. */
export const undoUnknownWords = (kinds: readonly UndoKind[]): string =>
  `${kinds.includes("end") ? "Ends what the record made: nothing more is granted. " : ""}What it comes to in money is not known: there are no figures yet. They come within seconds.`;

/** In money, for budgets of one unit. */
export function undoWords(kind: UndoKind, line: Effect): string {
  const money = (text: string) => moneyText(BigInt(text), line.unit);
  switch (kind) {
    case "end":
      return `Ends what the record made: nothing more is granted, and ${money(line.available_before)} stay unspent. What is spent stays in the books, holds that are out stay valid, and the id stays used. To undo the undo makes it go on.`;
    case "begin":
      return `Lets it go on, with a limit of ${money(line.limit_after)} in its life.`;
    case "other":
      return `Limits of ${money(line.limit_before)} stay.`;
    case "limit":
    case "daily":
      return effectWords({ action: "set", column: kind, text: "" }, line);
    default:
      return effectWords({ action: kind }, line);
  }
}

/** In pacing; null where nothing is to be said. */
export function undoPacingWords(kind: UndoKind): string | null {
  if (kind === "end" || kind === "begin") return null;
  return pacingWords(kind === "pause" || kind === "resume" ? kind : "set");
}
