// Who changed what, when and why; newest first; each can be undone as a change of its own.
import { useState } from "react";
import { api } from "../api/client";
import type { AuditRecord, AuditRow, BulkAnswer } from "../api/types";
import { usePageLoaded } from "../api/use";
import { periodsGone } from "../campaign/windows";
import { announce } from "../ui/announce";
import { Loading, ProblemNote } from "../ui/parts";
import { count } from "../ui/numbers";
import { dayAndSecond } from "../ui/time";
import { addressOf, follow } from "../url/router";
import { RecordDialog } from "./RecordDialog";
import { UndoDialog, undoneWords } from "./UndoDialog";
import { filePair, pair, sessionPair } from "./pair";

const REFRESH_MS = 10_000;

interface Props {
  query: string;
  may: boolean;
  done?: () => void;
}

export function AuditTable({ query, may, done }: Props) {
  const [cursor, setCursor] = useState<string | null>(null);
  const [opened, setOpened] = useState<AuditRecord | null>(null);
  const address = query + (cursor === null ? "" : `&cursor=${cursor}`);
  const { value, problem, again } = usePageLoaded(
    `audit ${address}`,
    (signal) => api.audit(address, signal),
    REFRESH_MS,
  );
  const [words, setWords] = useState("");
  const [undoing, setUndoing] = useState<AuditRecord | null>(null);
  const undone = (answer: BulkAnswer) => {
    const text = undoneWords(answer);
    setUndoing(null);
    setWords(text);
    announce(text);
    again();
    done?.();
  };
  if (value === null)
    return problem === null ? <Loading what="changes" /> : <ProblemNote problem={problem} again={again} />;
  return (
    <>
      {words !== "" && <p className="quiet">{words}</p>}
      {value.records.length === 0 ? (
        <p className="quiet">Nobody has changed anything yet.</p>
      ) : (
        <div className="scroll-wide" tabIndex={0} role="region" aria-label="List of changes">
          <table className="table">
            <thead>
              <tr>
                <th>When, UTC</th>
                <th>Who</th>
                <th>What</th>
                <th className="end">Budgets</th>
                <th>Before → after</th>
                <th>Why</th>
                <th>
                  <span className="hidden-text">Undo</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {value.records.map((record) => (
                <Row
                  key={record.record}
                  record={record}
                  may={may}
                  undo={() => setUndoing(record)}
                  open={() => setOpened(record)}
                />
              ))}
            </tbody>
          </table>
        </div>
      )}
      {(cursor !== null || value.next !== null) && (
        <p className="pages">
          <button type="button" className="button" disabled={cursor === null} onClick={() => setCursor(null)}>
            Newest
          </button>
          <button
            type="button"
            className="button"
            disabled={value.next === null}
            onClick={() => setCursor(value.next)}
          >
            Older
          </button>
        </p>
      )}
      {opened !== null && <RecordDialog record={opened} close={() => setOpened(null)} />}
      {undoing !== null && (
        <UndoDialog
          record={undoing.record}
          action={undoing.action}
          rows={undoing.rows}
          close={() => setUndoing(null)}
          done={undone}
        />
      )}
    </>
  );
}

/** What is large about a record; empty for nothing. */
function largeWords({ changes }: AuditRecord): string {
  const large = changes.filter((change) => change.large);
  const goes = ({ before, after }: AuditRow) => periodsGone(before, after).length > 0;
  if (large.length === 0) return "";
  return large.some((change) => !goes(change)) ? "over 100 times as much" : "takes a limit away";
}

const nameOf = ({ id, name }: AuditRow): string => (name === null ? id : `${id} ${name}`);

function Row({
  record,
  may,
  undo,
  open,
}: {
  record: AuditRecord;
  may: boolean;
  undo: () => void;
  open: () => void;
}) {
  const [first] = record.changes;
  return (
    <tr>
      <td className="figures">{dayAndSecond(record.at_ms, "UTC")}</td>
      <td>{record.who}</td>
      <td>
        {record.action}
        {record.undo_of !== null && <span className="quiet"> of {record.undo_of}</span>}
      </td>
      <td className="end">
        {record.session !== null ? (
          `FIX ${record.session.name}`
        ) : record.rows === 1 && first !== undefined ? (
          <a href={addressOf("campaign", first.id)} onClick={follow}>
            {nameOf(first)}
          </a>
        ) : (
          count(record.rows)
        )}
      </td>
      <td className="wrap">
        {record.rows > 1 && first !== undefined && <span className="quiet">{nameOf(first)}: </span>}
        {record.session !== null
          ? sessionPair(record.session)
          : first === undefined
            ? ""
            : pair(first.before, first.after, first.unit)}
        {largeWords(record) !== "" && <strong> {largeWords(record)}</strong>}
        {record.file !== null && <span className="quiet"> ({filePair(record.file)})</span>}
        {record.rows > 1 && (
          <button type="button" className="button button-quiet" onClick={open}>
            and {count(record.rows - 1)} more
          </button>
        )}
      </td>
      <td>{record.why}</td>
      <td className="end">
        {record.session !== null || record.file !== null ? (
          ""
        ) : record.undone_by === null ? (
          <button type="button" className="button button-quiet" disabled={!may} onClick={undo}>
            Undo…
          </button>
        ) : (
          <span className="quiet">undone by {record.undone_by}</span>
        )}
      </td>
    </tr>
  );
}
