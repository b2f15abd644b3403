// What a session sent and got, as it is kept: passwords are not in it.
import { useState } from "react";
import { api, problemOf } from "../api/client";
import type { FixMessage, FixSession, Problem } from "../api/types";
import { useLoaded } from "../api/use";
import { Card, Loading, ProblemNote } from "../ui/parts";
import { exactTime } from "../ui/time";
import { readable } from "./sessions";

const PAGE = 100;
/** How far back the page looks, by the words on its buttons. */
const SINCE: readonly [string, number][] = [
  ["5 minutes", 5 * 60_000],
  ["1 hour", 3_600_000],
  ["1 day", 86_400_000],
];

export function Messages({ session, close }: { session: FixSession; close: () => void }) {
  const [since, setSince] = useState({ ms: SINCE[0]![1], fromMs: Date.now() - SINCE[0]![1] });
  const { value, problem, again } = useLoaded(`messages ${session.name} ${since.fromMs}`, (signal) =>
    api.fixMessages(session.name, `from_ms=${Math.round(since.fromMs)}&max=${PAGE}`, signal),
  );
  return (
    <Card
      title={`Messages of ${session.name}`}
      note={`the oldest first, ${PAGE} at a time; passwords are kept as ***`}
      wide
      actions={
        <>
          {SINCE.map(([words, ms]) => (
            <button
              key={ms}
              type="button"
              className="button button-quiet"
              aria-pressed={since.ms === ms}
              onClick={() => setSince({ ms, fromMs: Date.now() - ms })}
            >
              {words}
            </button>
          ))}
          <button
            type="button"
            className="button button-quiet"
            aria-label="Close the messages"
            onClick={close}
          >
            ✕
          </button>
        </>
      }
    >
      {problem !== null && <ProblemNote problem={problem} again={again} />}
      {value === null && problem === null && <Loading what="messages" />}
      {value !== null && (
        <List
          key={since.fromMs}
          name={session.name}
          fromMs={since.fromMs}
          first={value.messages}
          next={value.next}
        />
      )}
    </Card>
  );
}

interface ListProps {
  name: string;
  fromMs: number;
  first: readonly FixMessage[];
  next: string | null;
}

function List({ name, fromMs, first, next: firstNext }: ListProps) {
  const [more, setMore] = useState<{ messages: readonly FixMessage[]; next: string | null }>({
    messages: [],
    next: firstNext,
  });
  const [failed, setFailed] = useState<Problem | null>(null);
  const load = async () => {
    try {
      const query = `from_ms=${Math.round(fromMs)}&max=${PAGE}&cursor=${encodeURIComponent(more.next!)}`;
      const page = await api.fixMessages(name, query);
      setMore({ messages: [...more.messages, ...page.messages], next: page.next });
      setFailed(null);
    } catch (error) {
      setFailed(problemOf(error));
    }
  };
  const all = [...first, ...more.messages];
  if (all.length === 0) return <p className="quiet">None in this time.</p>;
  return (
    <>
      <div className="scroll" tabIndex={0} role="region" aria-label="Messages, as a table">
        <table className="table">
          <thead>
            <tr>
              <th>Time, UTC</th>
              <th>Way</th>
              <th>Message</th>
            </tr>
          </thead>
          <tbody>
            {all.map((message, i) => (
              <tr key={i}>
                <td className="figures">{exactTime(message.at_us / 1_000, "UTC")}</td>
                <td>{message.direction === "in" ? "← in" : "→ out"}</td>
                <td className="wrap figures">
                  {message.message === null
                    ? `damaged: ${message.hex ?? "no bytes"}`
                    : readable(message.message)}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {failed !== null && <ProblemNote problem={failed} />}
      {more.next !== null && (
        <button type="button" className="button" onClick={() => void load()}>
          More
        </button>
      )}
    </>
  );
}
