// Asks before something is done to a session: what it means, with which numbers, and why.
import { useState } from "react";
import { api, problemOf } from "../api/client";
import type { FixSession, Problem } from "../api/types";
import { Dialog, ProblemNote } from "../ui/parts";
import { count } from "../ui/numbers";
import { ACTS, type Act, sequenceNumber } from "./sessions";

interface Props {
  act: Act;
  session: FixSession;
  close: () => void;
  done: () => void;
}

const MEANS: Readonly<Record<Act, string>> = {
  logout: "The peer gets a Logout, and may log on again.",
  resend: "The peer is asked to send messages again that have come before.",
  sequence: "The next messages have these numbers. The peer must be set alike, or the logon finds a gap.",
  reset: "Both numbers begin at 1. What was not delivered is not sent again; the peer must be set alike.",
};

export function ActDialog({ act, session, close, done }: Props) {
  const [why, setWhy] = useState("");
  const [first, setFirst] = useState(
    String(act === "resend" ? Math.max(1, session.next_in - 1) : session.next_out),
  );
  const [second, setSecond] = useState(act === "resend" ? "" : String(session.next_in));
  const [sending, setSending] = useState(false);
  const [failed, setFailed] = useState<Problem | null>(null);
  const title = ACTS.find((one) => one.act === act)!.title;
  const numbers = act === "resend" || act === "sequence";
  const [one, two] = [
    sequenceNumber(first),
    act === "resend" && second.trim() === "" ? 0 : sequenceNumber(second),
  ];
  const blocked =
    numbers && (one === null || two === null)
      ? "Numbers are whole, from 1 to 999,999,999."
      : why.trim().length < 3
        ? "A reason has at least 3 characters."
        : null;
  const send = async () => {
    setSending(true);
    try {
      const reason = why.trim();
      if (act === "sequence") await api.fixSequence(session.name, { next_out: one!, next_in: two!, reason });
      else
        await api.fixAct(session.name, act, act === "resend" ? { from: one!, to: two!, reason } : { reason });
      done();
    } catch (error) {
      setFailed(problemOf(error));
      setSending(false);
    }
  };
  return (
    <Dialog title={`${title}: ${session.name}`} close={close}>
      <form
        className="dialog-body"
        onSubmit={(event) => {
          event.preventDefault();
          if (blocked === null && !sending) void send();
        }}
      >
        <p>{MEANS[act]}</p>
        {numbers && (
          <>
            <label className="field">
              {act === "resend" ? "From number" : "Next out"}
              <input value={first} inputMode="numeric" onChange={(event) => setFirst(event.target.value)} />
            </label>
            <label className="field">
              {act === "resend" ? "To number; empty: all there are" : "Next in"}
              <input value={second} inputMode="numeric" onChange={(event) => setSecond(event.target.value)} />
            </label>
            <p className="quiet">
              Now: next out {count(session.next_out)}, next in {count(session.next_in)}.
            </p>
          </>
        )}
        <label className="field">
          Reason, for the audit log
          <input value={why} maxLength={500} onChange={(event) => setWhy(event.target.value)} />
        </label>
        {failed !== null && <ProblemNote problem={failed} />}
        <footer className="dialog-foot">
          <span className="quiet">{blocked ?? "It is in the audit log with its reason."}</span>
          <button type="button" className="button" onClick={close}>
            Cancel
          </button>
          <button type="submit" className="button button-main" disabled={blocked !== null || sending}>
            {sending ? "Sealing…" : title}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}
