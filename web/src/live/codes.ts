// The words behind the codes: those of schema/live.xml, and how people say them.
import { SENTENCES, STATUSES } from "./layout";

export { FLAG, FLAG_NAMES, PACINGS, PERIODS, REASONS, STATUSES, VERDICTS } from "./layout";

export type Status = (typeof STATUSES)[number];

/** A code as people say it. */
export const words = (code: string): string => code.replaceAll("_", " ");

/** What a code means: of a status, of an auction, of an ask. One of another release is shown as it is. */
export const sentence = (code: string): string =>
  Object.hasOwn(SENTENCES, code) ? SENTENCES[code]! : words(code);
