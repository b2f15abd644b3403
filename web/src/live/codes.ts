// The words behind the codes: those of schema/live.xml, and how people say them.
import { SENTENCES, STATUSES } from "./layout";

export { FLAG, FLAG_NAMES, PACINGS, PERIODS, REASONS, STATUSES, VERDICTS } from "./layout";

export type Status = (typeof STATUSES)[number];

/** A code as people say it. */
export const words = (code: string): string => code.replaceAll("_", " ");

/** What a code means: of a status, of an auction, of an ask. One of another release is shown as it is. */
export const sentence = (code: string): string =>
  Object.hasOwn(SENTENCES, code) ? SENTENCES[code]! : words(code);

/** The node has one code for both: of budgets that do not bid it means something else. */
const OF_ASKS: Readonly<Record<string, string>> = {
  lost: "its asks are granted, and too few of the grants are settled",
};

/** Why a budget stands as it does, in words that fit one that bids, or one that is asked. */
export const reasonOf = (reason: string, bids: boolean): string =>
  (bids ? undefined : OF_ASKS[reason]) ?? sentence(reason);
