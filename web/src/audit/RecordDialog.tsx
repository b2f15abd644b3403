import { api } from "../api/client";
import type { AuditRecord } from "../api/types";
import { useLoaded } from "../api/use";
import { Dialog, Loading, ProblemNote } from "../ui/parts";
import { count } from "../ui/numbers";
import { pair } from "./pair";

const SHOWN = 500;

/** All budgets that one record changed. */
export function RecordDialog({ record, close }: { record: AuditRecord; close: () => void }) {
  const { value, problem, again } = useLoaded(`record ${record.record}`, (signal) =>
    api.record(record.record, signal),
  );
  return (
    <Dialog title={`Record ${record.record}: ${record.action}, ${record.who}`} close={close} wide>
      <div className="scroll dialog-body" tabIndex={0} role="region" aria-label="Budgets of this record">
        <p className="quiet">{record.why}</p>
        {problem !== null && <ProblemNote problem={problem} again={again} />}
        {value === null ? (
          problem === null && <Loading what="the record" />
        ) : (
          <table className="table">
            <thead>
              <tr>
                <th className="end">Budget</th>
                <th>Name</th>
                <th>Before → after</th>
              </tr>
            </thead>
            <tbody>
              {value.changes.slice(0, SHOWN).map((row) => (
                <tr key={row.id}>
                  <td className="end">{row.id}</td>
                  <td>{row.name ?? ""}</td>
                  <td>{pair(row.before, row.after, row.unit)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
        {value !== null && value.changes.length > SHOWN && (
          <p className="quiet">
            The first {SHOWN} of {count(value.changes.length)}.
          </p>
        )}
        {value !== null && value.file !== null && value.rows > value.changes.length && (
          <p className="quiet">
            The first {count(value.changes.length)} of {count(value.rows)} that the file changed.
          </p>
        )}
      </div>
    </Dialog>
  );
}
