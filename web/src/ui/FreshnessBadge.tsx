// How old the figures of a page are, and how the connection stands: words and a shape, not colour alone.
import { useEffect, useReducer, useRef, useState, useSyncExternalStore } from "react";
import { type Asked, useAsked } from "../api/use";
import type { Feed } from "../live/feed";
import { LiveText } from "./LiveText";
import { announce } from "./announce";
import { age, exactTime } from "./time";

/** `none`: figures are on their way, and none is late. */
const SHAPE = { none: "○", fresh: "●", late: "◐", stale: "▲" } as const;
type Shape = keyof typeof SHAPE;

function useNow(everyMs: number): number {
  const [nowMs, setNowMs] = useState(Date.now);
  useEffect(() => {
    const timer = window.setInterval(() => setNowMs(Date.now()), everyMs);
    return () => window.clearInterval(timer);
  }, [everyMs]);
  return nowMs;
}

/** Renders anew each second in which there is something to say: each step is a picture of the page. */
function useTicks(wanted: () => boolean): void {
  const [, step] = useReducer((steps: number) => steps + 1, 0);
  useEffect(() => {
    const timer = window.setInterval(() => wanted() && step(), 1_000);
    return () => window.clearInterval(timer);
  }, []);
}

/** The page greys its figures by the same word, and the change is spoken. */
function useSaid(fresh: Shape, said: string): void {
  useEffect(() => {
    document.documentElement.dataset.fresh = fresh;
  }, [fresh]);
  useEffect(() => announce(said), [said]);
}

/** Of the table, which the live stream fills: by the bank's clock. */
export function FreshnessBadge({ feed }: { feed: Feed }) {
  const state = useSyncExternalStore(feed.subscribe, feed.snapshotState);
  const { freshness } = feed;
  const shown = useRef<Shape>("none");
  useTicks(
    () =>
      shown.current !== "fresh" ||
      feed.state.connection !== "live" ||
      freshness.state(Date.now()) !== "fresh",
  );
  const nowMs = Date.now();
  const known = Number.isFinite(freshness.asOfMs);
  const isBeginning = state.connection === "connecting" || state.connection === "loading";
  const fresh: Shape =
    state.connection === "live" && known
      ? freshness.state(nowMs)
      : known && freshness.state(nowMs) !== "stale"
        ? "late"
        : !known && isBeginning && state.attempt === 0
          ? "none"
          : "stale";
  shown.current = fresh;
  const said = connectionWords(state.connection, fresh);
  useSaid(fresh, said);
  return (
    <div className="freshness" data-fresh={fresh}>
      <span aria-hidden="true">{SHAPE[fresh]}</span>
      {known && (
        <LiveText
          className="figures freshness-clock"
          on={feed.onChange}
          text={() => `as of ${exactTime(freshness.asOfMs, "UTC")}`}
        />
      )}
      {known && fresh !== "fresh" && <span className="figures">{age(freshness.ageMs(nowMs))} ago</span>}
      <span className="freshness-state">{said}</span>
      {state.connection === "waiting" && (
        <>
          <span className="quiet figures">
            again in {Math.max(0, Math.ceil((state.retryAtMs - nowMs) / 1000))} s
          </span>
          <button type="button" className="button button-quiet" onClick={feed.retryNow}>
            Now
          </button>
        </>
      )}
      {state.connection === "refused" && <span>{state.problem}</span>}
    </div>
  );
}

/** Rounds that may fail to come before figures are late, and old. */
const [LATE_ROUNDS, STALE_ROUNDS] = [3, 6];

export function askedShape({ atMs, everyMs, problem }: Asked, nowMs: number): Shape {
  if (problem !== null) return "stale";
  if (Number.isNaN(atMs)) return "none";
  const rounds = (nowMs - atMs) / everyMs;
  return rounds < LATE_ROUNDS ? "fresh" : rounds < STALE_ROUNDS ? "late" : "stale";
}

const ASKED_WORDS = { none: "loading", fresh: "live", late: "the node is slow", stale: "the node is silent" };

/** Of a page that asks for its figures itself: by when they came. */
export function AskedBadge() {
  const asked = useAsked();
  const nowMs = useNow(1_000);
  const { atMs, problem } = asked;
  const fresh = askedShape(asked, nowMs);
  const said = problem === null ? ASKED_WORDS[fresh] : problem.status === 0 ? "disconnected" : "refused";
  useSaid(fresh, said);
  return (
    <div className="freshness" data-fresh={fresh}>
      <span aria-hidden="true">{SHAPE[fresh]}</span>
      {!Number.isNaN(atMs) && <span className="figures">read {age(Math.max(0, nowMs - atMs))} ago</span>}
      <span className="freshness-state">{said}</span>
    </div>
  );
}

function connectionWords(connection: string, fresh: Shape): string {
  switch (connection) {
    case "live":
      return fresh === "fresh" ? "live" : "the node is silent";
    case "hidden":
      return "paused while hidden";
    case "waiting":
      return "disconnected";
    case "refused":
      return "reload the page";
    default:
      return connection;
  }
}
