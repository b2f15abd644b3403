import { useCallback, useEffect, useState, useSyncExternalStore } from "react";
import { problemOf } from "./client";
import type { Problem } from "./types";

export interface Loaded<T> {
  value: T | null;
  problem: Problem | null;
  again: () => void;
}

/** Loads when `key` changes and, with `everyMs`, again and again while the tab is shown. Old values stay while a new one comes, or fails to. */
export function useLoaded<T>(key: string, load: (signal: AbortSignal) => Promise<T>, everyMs = 0): Loaded<T> {
  const [state, setState] = useState<{ key: string; value: T | null; problem: Problem | null }>({
    key,
    value: null,
    problem: null,
  });
  const [round, setRound] = useState(0);
  const again = useCallback(() => setRound((old) => old + 1), []);
  useEffect(() => {
    const abort = new AbortController();
    load(abort.signal).then(
      (value) => setState({ key, value, problem: null }),
      (error: unknown) => {
        if (abort.signal.aborted) return;
        setState((old) => ({ key, value: old.key === key ? old.value : null, problem: problemOf(error) }));
      },
    );
    const next = () => {
      if (!document.hidden) again();
      else document.addEventListener("visibilitychange", again, { once: true, signal: abort.signal });
    };
    const timer = everyMs === 0 ? 0 : window.setTimeout(next, everyMs);
    return () => {
      abort.abort();
      window.clearTimeout(timer);
    };
    // `load` is a closure made anew at each rendering; `key` says when it differs.
  }, [key, round, everyMs, again]);
  const own = state.key === key;
  return { value: own ? state.value : null, problem: own ? state.problem : null, again };
}

/** How the figures stand of a page that asks the node for them itself: what the badge says there. */
export interface Asked {
  /** When they came, by the browser's clock; NaN before the first answer. */
  atMs: number;
  everyMs: number;
  problem: Problem | null;
}

const NOTHING_ASKED: Asked = { atMs: NaN, everyMs: 0, problem: null };
let asked = NOTHING_ASKED;
const askers = new Set<() => void>();

function report(now: Asked): void {
  asked = now;
  for (const changed of askers) changed();
}

function subscribe(changed: () => void): () => void {
  askers.add(changed);
  return () => void askers.delete(changed);
}

export const useAsked = (): Asked => useSyncExternalStore(subscribe, () => asked);

/** `useLoaded` for what a page is about: the badge says how old that is. */
export function usePageLoaded<T>(
  key: string,
  load: (signal: AbortSignal) => Promise<T>,
  everyMs: number,
): Loaded<T> {
  const loaded = useLoaded(key, load, everyMs);
  const { value, problem } = loaded;
  useEffect(() => {
    if (problem !== null) report({ ...asked, everyMs, problem });
    else report({ atMs: value === null ? NaN : Date.now(), everyMs, problem });
  }, [value, problem, everyMs]);
  useEffect(() => () => report(NOTHING_ASKED), []);
  return loaded;
}
