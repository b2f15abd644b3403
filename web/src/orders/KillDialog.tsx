// Asks before orders are stopped: whose, why, and once more whether that is meant; or before they pass again, and why.
import { useId, useState } from "react";
import { api, problemOf } from "../api/client";
import type { FixKill, Problem } from "../api/types";
import { announce } from "../ui/announce";
import { Choice, Dialog, ProblemNote } from "../ui/parts";

type Scope = FixKill["scope"];

const SCOPES: readonly [Scope, string, string][] = [
  ["session", "Session", "Orders of a client's session"],
  ["account", "Account", "Orders of an Account (1) or AllocAccount (79)"],
  ["firm", "Firm", "Orders of all sessions of a firm"],
];

interface Props {
  /** Whose orders are to pass again; null: some are to be stopped. */
  stopped: FixKill | null;
  /** Names of the clients' sessions. */
  sessions: readonly string[];
  close: () => void;
  done: () => void;
}

export function KillDialog({ stopped, sessions, close, done }: Props) {
  const [scope, setScope] = useState<Scope>(stopped?.scope ?? "session");
  const [typed, setTyped] = useState(stopped?.name ?? "");
  const [why, setWhy] = useState("");
  const [asked, setAsked] = useState(false);
  const [sending, setSending] = useState(false);
  const [failed, setFailed] = useState<Problem | null>(null);
  const id = useId();
  const name = typed.trim();
  const whose = `the ${scope} ${name}`;
  const blocked =
    name === ""
      ? `Whose? The ${scope}, exactly.`
      : why.trim().length < 3
        ? "A reason has at least 3 characters."
        : null;
  const send = async () => {
    setSending(true);
    setFailed(null);
    try {
      await api.fixKill({ scope, name, reason: why.trim() }, stopped === null);
      announce(stopped === null ? `Orders of ${whose} are stopped` : `Orders of ${whose} pass again`);
      done();
    } catch (error) {
      setFailed(problemOf(error));
      setSending(false);
    }
  };
  const submit = () => {
    if (blocked !== null || sending) return;
    if (stopped === null && !asked) setAsked(true);
    else void send();
  };
  return (
    <Dialog title={stopped === null ? "Stop orders" : `Let orders pass: ${whose}`} close={close}>
      <form
        className="dialog-body"
        onSubmit={(event) => {
          event.preventDefault();
          submit();
        }}
      >
        {asked ? (
          <p id={id}>
            From now on new orders and replaces of <strong>{whose}</strong> are refused, and all its open
            orders are cancelled at their venues. Reason: {why.trim()}
          </p>
        ) : (
          <>
            {stopped === null ? (
              <>
                <Choice label="Whose orders" value={scope} choose={setScope} options={SCOPES} />
                <label className="field">
                  Name, exactly
                  <input
                    value={typed}
                    maxLength={128}
                    list={scope === "session" ? id : undefined}
                    onChange={(event) => setTyped(event.target.value)}
                  />
                </label>
                <datalist id={id}>
                  {sessions.map((session) => (
                    <option key={session} value={session} />
                  ))}
                </datalist>
              </>
            ) : (
              <p>New orders pass again. What was cancelled stays cancelled.</p>
            )}
            <label className="field">
              Reason, for the audit log
              <input value={why} maxLength={500} onChange={(event) => setWhy(event.target.value)} />
            </label>
          </>
        )}
        {failed !== null && <ProblemNote problem={failed} />}
        <footer className="dialog-foot">
          <span className="quiet">{blocked ?? "It is in the audit log with its reason."}</span>
          {asked ? (
            <button
              key="back"
              type="button"
              className="button"
              autoFocus
              aria-describedby={id}
              onClick={() => setAsked(false)}
            >
              Back
            </button>
          ) : (
            <button key="cancel" type="button" className="button" onClick={close}>
              Cancel
            </button>
          )}
          <button type="submit" className="button button-main" disabled={blocked !== null || sending}>
            {sending ? "Sealing…" : stopped !== null ? "Let pass" : asked ? "Stop orders" : "Next"}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}
