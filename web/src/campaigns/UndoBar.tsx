import { useEffect, useState } from "react";
import type { BulkAnswer } from "../api/types";
import { UndoDialog, undoneWords } from "../audit/UndoDialog";
import { announce } from "../ui/announce";
import { Dialog } from "../ui/parts";
import { count } from "../ui/numbers";

export interface Deed {
  answer: BulkAnswer;
  action: string;
  /** Browser's clock. */
  untilMs: number;
}

/** What was just done, with its undo as long as that is offered. */
export function UndoBar({ deed, forget }: { deed: Deed; forget: () => void }) {
  const [nowMs, setNowMs] = useState(Date.now);
  const [words, setWords] = useState<string | null>(null);
  const [rows, setRows] = useState(false);
  const [undoing, setUndoing] = useState(false);
  useEffect(() => {
    const timer = window.setInterval(() => setNowMs(Date.now()), 500);
    return () => window.clearInterval(timer);
  }, []);
  const left = Math.ceil((deed.untilMs - nowMs) / 1000);
  const { record } = deed.answer;
  const { changed, refused } = deed.answer;
  const said =
    words ?? `${deed.action}: ${count(changed)} changed${refused > 0 ? `, ${count(refused)} refused` : ""}.`;
  useEffect(() => announce(said), [said]);
  return (
    <div className="undo-bar" role="region" aria-label="What was done">
      <span>{said}</span>
      <button type="button" className="button button-quiet" onClick={() => setRows(true)}>
        Row by row
      </button>
      {words === null && left > 0 && record !== null && (
        <button type="button" className="button" onClick={() => setUndoing(true)}>
          Undo… ({left} s)
        </button>
      )}
      <button type="button" className="button button-quiet" aria-label="Dismiss" onClick={forget}>
        ✕
      </button>
      {undoing && record !== null && (
        <UndoDialog
          record={record}
          action={deed.action.toLowerCase()}
          rows={changed}
          close={() => setUndoing(false)}
          done={(answer) => {
            setUndoing(false);
            setWords(undoneWords(answer));
          }}
        />
      )}
      {rows && <RowsDialog answer={deed.answer} close={() => setRows(false)} />}
    </div>
  );
}

const SHOWN = 500;

function RowsDialog({ answer, close }: { answer: BulkAnswer; close: () => void }) {
  const rows = [...answer.rows]
    .sort((a, b) => Number(b.result === "refused") - Number(a.result === "refused"))
    .slice(0, SHOWN);
  return (
    <Dialog title="Row by row" close={close} wide>
      <div className="scroll dialog-body" tabIndex={0} role="region" aria-label="Result of each row">
        <table className="table">
          <thead>
            <tr>
              <th className="end">Id</th>
              <th>Result</th>
              <th>Detail</th>
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr key={row.id}>
                <td className="end">{row.id}</td>
                <td>{row.result}</td>
                <td>{row.problem?.detail ?? ""}</td>
              </tr>
            ))}
          </tbody>
        </table>
        {answer.rows.length > SHOWN && (
          <p className="quiet">
            The first {SHOWN} of {count(answer.rows.length)}; all stand in the audit log.
          </p>
        )}
      </div>
    </Dialog>
  );
}
