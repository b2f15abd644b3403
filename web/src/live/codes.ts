// The words behind the codes: those of schema/live.xml, and how people say them.
import { STATUSES } from "./layout";

export { FLAG, FLAG_NAMES, PACINGS, REASONS, STATUSES, VERDICTS } from "./layout";

export type Status = (typeof STATUSES)[number];

const SENTENCES: Record<string, string> = {
  no_traffic: "too little traffic fits it",
  outbid: "others bid more",
  floor: "its bid is below the floors",
  cap: "users have seen it often enough",
  purse: "workers' purses run empty",
  blocked: "its creatives are blocked there",
  held: "its money waits in holds",
  catching_up: "behind, and catching up",
  paced: "the plan says not now",
  limit: "nothing is left of its limit",
  day_limit: "nothing is left of today's limit",
  parent: "nothing is left of its parent",
  flight_ahead: "its flight has not begun",
  flight_over: "its flight is over",
  day_parts: "outside its hours",
  owner: "paused by its owner",
  removed: "no longer among the budgets",
  lease: "this node has no lease of it",
  journal: "the journal cannot seal",
  busy: "a bounded queue is full",
};

/** A code as people say it. */
export const words = (code: string): string => code.replaceAll("_", " ");

export const sentence = (reason: string): string => SENTENCES[reason] ?? words(reason);
