// Asks before a record is taken back: what that does to how many budgets, in money, and why. As before many are changed at once.
import { useMemo, useState } from "react";
import { api, newKey, problemOf } from "../api/client";
import type { BulkAnswer, Problem } from "../api/types";
import { EffectLines, TOLD_MOST, UNKNOWN } from "../campaigns/BulkDialog";
import { TYPED_ABOVE, missing } from "../campaigns/bulk";
import { useDryRun } from "../campaigns/dryRun";
import { undoKinds, undoPacingWords, undoUnknownWords, undoWords } from "../campaigns/effect";
import { Dialog, ProblemNote } from "../ui/parts";
import { budgets, count } from "../ui/numbers";
import { pair } from "./pair";

interface Props {
  record: string;
  /** What the record did, as `pause`. */
  action: string;
  /** How many budgets it changed. */
  rows: number;
  close: () => void;
  done: (answer: BulkAnswer) => void;
}

/** What an undo did, as a sentence. */
export const undoneWords = ({ changed, refused }: BulkAnswer): string =>
  `Undone for ${count(changed)}${refused > 0 ? `; ${count(refused)} had changed since and stay` : ""}.`;

export function UndoDialog({ record, action, rows, close, done }: Props) {
  const [why, setWhy] = useState("");
  const [typed, setTyped] = useState("");
  const [sending, setSending] = useState(false);
  const [failed, setFailed] = useState<Problem | null>(null);
  // The same button pressed twice does it once.
  const key = useMemo(newKey, [record, why.trim()]);
  const { answer, problem } = useDryRun(record, api.dryUndo);
  const changed = answer?.changed ?? 0;
  const blocked =
    answer === null ? UNKNOWN : changed === 0 ? "None of it can be put back." : missing(changed, typed, why);
  const send = async () => {
    setSending(true);
    try {
      done(await api.undo(record, why.trim(), key));
    } catch (error) {
      setFailed(problemOf(error));
      setSending(false);
    }
  };
  return (
    <Dialog title={`Undo ${action} of ${count(rows)} ${budgets(rows)}`} close={close}>
      <form
        className="dialog-body"
        onSubmit={(event) => {
          event.preventDefault();
          if (blocked === null && !sending) void send();
        }}
      >
        {answer !== null && <UndoEffect answer={answer} />}
        {problem !== null && <ProblemNote problem={problem} />}
        <label className="field">
          Reason, for the audit log
          <input value={why} maxLength={500} autoFocus onChange={(event) => setWhy(event.target.value)} />
        </label>
        {changed > TYPED_ABOVE && (
          <label className="field">
            Type {changed} to confirm
            <input value={typed} inputMode="numeric" onChange={(event) => setTyped(event.target.value)} />
          </label>
        )}
        {failed !== null && <ProblemNote problem={failed} />}
        <footer className="dialog-foot">
          <span className="quiet">{blocked ?? "An undo is a change of its own, and can be undone."}</span>
          <button type="button" className="button" onClick={close}>
            Cancel
          </button>
          <button type="submit" className="button button-main" disabled={blocked !== null || sending}>
            {sending ? "Sealing…" : "Undo"}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}

function UndoEffect({ answer: { changed, refused, unchanged, effect, rows } }: { answer: BulkAnswer }) {
  const kinds = undoKinds(rows);
  const pacing = [...new Set(kinds.map(undoPacingWords))].filter((words) => words !== null);
  return (
    <div className="effect" role="region" tabIndex={0} aria-label="Effect on money">
      <p className="strong">
        {count(changed)} will be put back{unchanged > 0 && `, ${count(unchanged)} are so already`}
        {refused > 0 && `, ${count(refused)} were changed since and stay`}.
      </p>
      {effect.length <= TOLD_MOST ? (
        effect.flatMap((line) => kinds.map((kind) => <p key={line.unit + kind}>{undoWords(kind, line)}</p>))
      ) : (
        <EffectLines effect={effect} limits={kinds.includes("limit")} />
      )}
      {effect.length === 0 && changed > 0 && <p>{undoUnknownWords(kinds)}</p>}
      {pacing.map((words) => (
        <p key={words} className="quiet">
          {words}
        </p>
      ))}
      <RowByRow rows={rows} />
    </div>
  );
}

const SHOWN = 100;

/** Those that stay as they are come first. */
function RowByRow({ rows }: Pick<BulkAnswer, "rows">) {
  const shown = [...rows]
    .sort((a, b) => Number(b.result === "refused") - Number(a.result === "refused"))
    .slice(0, SHOWN);
  return (
    <details>
      <summary>Row by row</summary>
      <ul className="effect-rows">
        {shown.map((row) => (
          <li key={row.id}>
            <span className="figures strong">{row.id}</span>{" "}
            {row.problem === null ? pair(row.before, row.after) : `stays: ${row.problem.detail}`}
          </li>
        ))}
      </ul>
      {rows.length > SHOWN && (
        <p className="quiet">
          The first {SHOWN} of {count(rows.length)}.
        </p>
      )}
    </details>
  );
}
