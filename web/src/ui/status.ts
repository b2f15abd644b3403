import { STATUSES, type Status } from "../live/codes";

/** Of a word of the API; one of another release reads as an error, which makes people look. */
export const statusOf = (text: string): Status => STATUSES.find((status) => status === text) ?? "error";

/** A shape for each status, so that colour is never alone. */
export const STATUS_SHAPE: Record<Status, string> = {
  active: "●",
  limited: "◐",
  paused: "‖",
  exhausted: "■",
  ended: "□",
  no_purse: "◇",
  error: "▲",
  waiting: "○",
};

export const UNDER = 0.95;
export const OVER = 1.05;
export type Band = "none" | "under" | "on" | "over";

export function bandOf(pace: number): Band {
  if (Number.isNaN(pace)) return "none";
  if (pace < UNDER) return "under";
  return pace > OVER ? "over" : "on";
}

/** Cut, not rounded: 0.949 is under its plan and must not read 0.95. */
export const paceText = (pace: number): string =>
  Number.isNaN(pace) ? "–" : (Math.floor(pace * 100 + 1e-9) / 100).toFixed(2);

/** Where debt comes from: it is nothing that the node granted. */
export const DEBT_WORDS =
  "Part of Spent that no hold covered: billed above the amount that was held, or when the hold was gone (a late notice)";
