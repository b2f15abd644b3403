// Words and rules of FIX sessions, without a page.
import type { FixSession, FixState } from "../api/types";
import { micros } from "../ui/numbers";

/** What an operator does to a session. */
export type Act = "logout" | "resend" | "sequence" | "reset";

export const ACTS: readonly { act: Act; title: string }[] = [
  { act: "logout", title: "Log out" },
  { act: "resend", title: "Resend" },
  { act: "sequence", title: "Set numbers" },
  { act: "reset", title: "Reset" },
];

/** Both sides are logged on. */
export const isUp = ({ state }: FixSession): boolean => state === "logged_on" || state === "resending";

/** The node says so, too; here a button that can only be refused is not shown. */
export const mayAct = (act: Act, state: FixState): boolean => {
  const up = state === "logged_on" || state === "resending";
  return act === "logout" || act === "resend" ? up : state === "waiting" || state === "out_of_schedule";
};

export const STATE_SHAPE: Readonly<Record<FixState, string>> = {
  waiting: "○",
  logging_on: "◐",
  logged_on: "●",
  resending: "↻",
  logging_out: "◑",
  out_of_schedule: "–",
};

export const STATE_TONE: Readonly<Record<FixState, "good" | "warn" | "plain">> = {
  waiting: "warn",
  logging_on: "plain",
  logged_on: "good",
  resending: "warn",
  logging_out: "plain",
  out_of_schedule: "plain",
};

export const stateWords = (state: FixState): string => state.replaceAll("_", " ");

export const routeWords = ({ kind, route }: FixSession): string =>
  kind === "venue" ? "venue" : route === "echo" ? "echo" : `→ ${route ?? "–"}`;

/** How long what came lately stayed in the gate: the median. */
export const latencyWords = ({ latency_p50_us: p50 }: FixSession): string =>
  p50 === null ? "–" : micros(p50);

/** The same of the slowest in a hundred. */
export const tailWords = ({ latency_p99_us: p99 }: FixSession): string =>
  p99 === null ? "" : `p99 ${micros(p99)}`;

/** The session whose median is the longest; null before anything came. */
export const slowestOf = (sessions: readonly FixSession[]): FixSession | null =>
  sessions.reduce<FixSession | null>((slowest, session) => {
    const p50 = session.latency_p50_us;
    return p50 !== null && p50 > (slowest?.latency_p50_us ?? -1) ? session : slowest;
  }, null);

/** A message as people read it: SOH as a bar. */
export const readable = (message: string): string => message.replaceAll("\u0001", " | ").replace(/ \| $/, "");

/** A sequence number that was typed; null where it is none. */
export function sequenceNumber(text: string): number | null {
  const trimmed = text.trim();
  if (!/^\d{1,9}$/.test(trimmed)) return null;
  const number = Number(trimmed);
  return number >= 1 ? number : null;
}
