// FIX sessions as they stand, what came and went, and what an operator does to them.
import { type ReactNode, useState } from "react";
import { api } from "../api/client";
import type { FixSession, Me } from "../api/types";
import { useLoaded, usePageLoaded } from "../api/use";
import { Card, Empty, Figure, Loading, ProblemNote } from "../ui/parts";
import { count } from "../ui/numbers";
import { age } from "../ui/time";
import { ActDialog } from "./ActDialog";
import { Messages } from "./Messages";
import { ACTS, type Act, STATE_SHAPE, STATE_TONE, isUp, mayAct, routeWords, stateWords } from "./sessions";
import { latencyWords, slowestOf, tailWords } from "./sessions";
import "./fix.css";

const POLL_MS = 1_000;

export default function FixPage({ me }: { me: Me | null }) {
  const { value, problem, again } = usePageLoaded("fix", api.fixSessions, POLL_MS);
  const node = useLoaded("node of fix", api.node, POLL_MS).value;
  const [asked, setAsked] = useState<{ act: Act; session: FixSession } | null>(null);
  const [shown, setShown] = useState<string | null>(null);
  if (value === null)
    return (
      <main className="page">
        {problem === null ? <Loading what="FIX sessions" /> : <ProblemNote problem={problem} again={again} />}
      </main>
    );
  const { sessions } = value;
  const open = sessions.find((session) => session.name === shown);
  return (
    <main className="page">
      <h1>FIX sessions</h1>
      {problem !== null && <ProblemNote problem={problem} again={again} />}
      {sessions.length === 0 ? (
        <Empty title="No FIX session is configured">
          <p>
            Each client is an entry <code>[[fix.session]]</code> of the configuration, each venue an entry{" "}
            <code>[[fix.venue]]</code>.
          </p>
          <a className="button" href="/docs/fix.md">
            The FIX door
          </a>
        </Empty>
      ) : (
        <>
          <Tiles sessions={sessions} refused={value.refused_logons} />
          <Card title="Sessions" note="counts and times are of this run of the node" wide>
            <Sessions
              sessions={sessions}
              nowMs={node?.as_of_ms ?? Date.now()}
              may={me?.role === "operate"}
              act={(act, session) => setAsked({ act, session })}
              show={setShown}
            />
          </Card>
        </>
      )}
      {open !== undefined && <Messages key={open.name} session={open} close={() => setShown(null)} />}
      {asked !== null && (
        <ActDialog
          {...asked}
          close={() => setAsked(null)}
          done={() => {
            setAsked(null);
            again();
          }}
        />
      )}
    </main>
  );
}

function Tiles({ sessions, refused }: { sessions: readonly FixSession[]; refused: number }) {
  const slowest = slowestOf(sessions);
  const up = sessions.filter(isUp).length;
  const resending = sessions.filter(({ state }) => state === "resending").length;
  const gaps = sessions.reduce((sum, session) => sum + session.gaps, 0);
  const messages = sessions.reduce((sum, session) => sum + session.messages_in, 0);
  const left = sessions.reduce((sum, session) => sum + session.messages_out, 0);
  return (
    <dl className="figures-row">
      <Figure
        name="Logged on"
        value={`${count(up)} of ${count(sessions.length)}`}
        tone={up === sessions.length ? "good" : "warn"}
        note={`${resending === 0 ? "none resends" : `${count(resending)} resend`}${refusedWords(refused)}`}
      />
      <Figure
        name="Gaps"
        value={count(gaps)}
        tone={gaps === 0 ? "plain" : "warn"}
        note="in what came; what was missing is asked for again"
      />
      <Figure name="Messages" value={count(messages)} note={`came; ${count(left)} left, also again`} />
      <Figure
        name="Latency"
        value={slowest === null ? "–" : latencyWords(slowest)}
        note={
          slowest === null
            ? "nothing has come yet"
            : `median of ${slowest.name}, the slowest; ${tailWords(slowest)}: until all is kept and on its way`
        }
      />
    </dl>
  );
}

const refusedWords = (refused: number): string =>
  refused > 0 ? `; ${count(refused)} refused Logons since the start: the log has their CompIDs` : "";

interface SessionsProps {
  sessions: readonly FixSession[];
  nowMs: number;
  may: boolean;
  act: (act: Act, session: FixSession) => void;
  show: (name: string) => void;
}

interface SessionColumn {
  title: string;
  end?: boolean;
  cell: (session: FixSession, nowMs: number) => ReactNode;
}

const COLUMNS: readonly SessionColumn[] = [
  {
    title: "State",
    cell: ({ state }) => (
      <span className="fix-state" data-tone={STATE_TONE[state]}>
        <span aria-hidden="true">{STATE_SHAPE[state]}</span> {stateWords(state)}
      </span>
    ),
  },
  { title: "Next out", end: true, cell: ({ next_out }) => count(next_out) },
  { title: "Next in", end: true, cell: ({ next_in }) => count(next_in) },
  { title: "Gaps", end: true, cell: ({ gaps }) => count(gaps) },
  { title: "Came", end: true, cell: ({ messages_in }) => count(messages_in) },
  { title: "Left", end: true, cell: ({ messages_out }) => count(messages_out) },
  {
    title: "Latency",
    end: true,
    cell: (session) => (
      <>
        {latencyWords(session)}
        <span className="quiet fix-ids">{tailWords(session)}</span>
      </>
    ),
  },
  { title: "Last in", end: true, cell: ({ last_in_ms }, nowMs) => ago(last_in_ms, nowMs) },
  { title: "Last out", end: true, cell: ({ last_out_ms }, nowMs) => ago(last_out_ms, nowMs) },
  { title: "Peer", cell: ({ address }) => address ?? "–" },
  { title: "Route", cell: routeWords },
];

function Sessions({ sessions, nowMs, may, act, show }: SessionsProps) {
  return (
    <div className="scroll-wide" tabIndex={0} role="region" aria-label="Sessions, as a table">
      <table className="table table-sessions">
        <thead>
          <tr>
            <th>Session</th>
            {COLUMNS.map(({ title, end }) => (
              <th key={title} className={end ? "end" : undefined}>
                {title}
              </th>
            ))}
            <th>
              <span className="hidden-text">What to do</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {sessions.map((session) => (
            <tr key={session.name}>
              <th scope="row">
                {session.name}
                <span className="quiet fix-ids">
                  {session.begin_string} · {session.sender_comp_id} → {session.target_comp_id}
                </span>
              </th>
              {COLUMNS.map(({ title, end, cell }) => (
                <td key={title} data-title={title} className={end ? "end figures" : "figures"}>
                  {cell(session, nowMs)}
                </td>
              ))}
              <td className="fix-acts">
                <button type="button" className="button button-quiet" onClick={() => show(session.name)}>
                  Messages
                </button>
                {may &&
                  ACTS.filter(({ act: one }) => mayAct(one, session.state)).map(({ act: one, title }) => (
                    <button
                      key={one}
                      type="button"
                      className="button button-quiet"
                      onClick={() => act(one, session)}
                    >
                      {title}…
                    </button>
                  ))}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const ago = (ms: number | null, nowMs: number): string => (ms === null ? "–" : age(Math.max(0, nowMs - ms)));
