// What a change would come to, asked of the node a moment after the last key.
import { useEffect, useState } from "react";
import { problemOf } from "../api/client";
import type { BulkAnswer, Problem } from "../api/types";

const STILL_MS = 250;

interface DryRun {
  answer: BulkAnswer | null;
  problem: Problem | null;
}

const NOTHING: DryRun = { answer: null, problem: null };

/** `text` stands for the change, "" for none. What was answered to another change is not shown for this one. */
export function useDryRun(text: string, ask: (text: string) => Promise<BulkAnswer>): DryRun {
  const [state, setState] = useState({ text: "", run: NOTHING });
  useEffect(() => {
    if (text === "") return;
    let gone = false;
    const tell = (run: DryRun) => gone || setState({ text, run });
    const timer = window.setTimeout(() => {
      ask(text).then(
        (answer) => tell({ answer, problem: null }),
        (error: unknown) => tell({ answer: null, problem: problemOf(error) }),
      );
    }, STILL_MS);
    return () => {
      gone = true;
      window.clearTimeout(timer);
    };
    // `ask` is a closure made anew at each rendering; `text` says when it differs.
  }, [text]);
  return state.text === text ? state.run : NOTHING;
}
