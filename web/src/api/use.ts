import { useCallback, useEffect, useState } from "react";
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
