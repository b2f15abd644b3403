// "As of", by the bank's clock, and how the connection stands: words and a shape, not colour alone.
import { useEffect, useState, useSyncExternalStore } from "react";
import type { Feed } from "../live/feed";
import { announce } from "./announce";
import { age, exactTime } from "./time";

const SHAPE = { fresh: "●", late: "◐", stale: "▲" } as const;

function useNow(everyMs: number): number {
  const [nowMs, setNowMs] = useState(Date.now);
  useEffect(() => {
    const timer = window.setInterval(() => setNowMs(Date.now()), everyMs);
    return () => window.clearInterval(timer);
  }, [everyMs]);
  return nowMs;
}

export function FreshnessBadge({ feed }: { feed: Feed }) {
  const state = useSyncExternalStore(feed.subscribe, feed.snapshotState);
  // Each step is a picture of the page: two of them cost as much as an update of the table.
  const nowMs = useNow(1_000);
  const { freshness } = feed;
  const known = Number.isFinite(freshness.asOfMs);
  const fresh =
    state.connection === "live" && known
      ? freshness.state(nowMs)
      : known && freshness.state(nowMs) !== "stale"
        ? "late"
        : "stale";
  const said = connectionWords(state.connection, fresh);
  useEffect(() => {
    document.documentElement.dataset.fresh = fresh;
  }, [fresh]);
  useEffect(() => announce(said), [said]);
  return (
    <div className="freshness" data-fresh={fresh}>
      <span aria-hidden="true">{SHAPE[fresh]}</span>
      {known && <span className="figures freshness-clock">as of {exactTime(freshness.asOfMs, "UTC")}</span>}
      <span className="figures">{known ? `${age(freshness.ageMs(nowMs))} ago` : "no figures yet"}</span>
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

function connectionWords(connection: string, fresh: keyof typeof SHAPE): string {
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
