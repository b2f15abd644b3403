// For engineers: what the node does, how fast, how full, and whether the sums hold.
import { useEffect, useRef, useState } from "react";
import { api } from "../api/client";
import type { Door, Node } from "../api/types";
import { usePageLoaded } from "../api/use";
import { words } from "../live/codes";
import { Bar, Card, Figure, Loading, ProblemNote } from "../ui/parts";
import { count, micros, percentOfPpm, short } from "../ui/numbers";
import { exactTime, span } from "../ui/time";
import { addressOf, follow } from "../url/router";
import {
  HEAT_COLUMNS,
  answeredLately,
  errorWords,
  grantedPerS,
  heatColumn,
  quantile,
  unmeasured,
} from "./heat";
import { Heatmap } from "./Heatmap";

const POLL_MS = 2_000;
const NEAR_FULL = 0.8;

interface Heat {
  /** Columns of the polls so far, by door. */
  columns: ReadonlyMap<string, number[][]>;
  /** The bank's clock at the first of them. */
  sinceMs: number;
}

/** What was polled since this page was opened: nothing of it is kept elsewhere. */
function useHeat(node: Node | null): Heat {
  const seen = useRef(0);
  const [heat, setHeat] = useState<Heat>({ columns: new Map(), sinceMs: NaN });
  useEffect(() => {
    if (node === null || node.as_of_ms === seen.current) return;
    seen.current = node.as_of_ms;
    setHeat(({ columns, sinceMs }) => ({
      columns: new Map(
        node.doors.map((door) => [
          door.door,
          [...(columns.get(door.door) ?? []), heatColumn(door.latency)].slice(-HEAT_COLUMNS),
        ]),
      ),
      sinceMs: Number.isNaN(sinceMs) ? node.as_of_ms : sinceMs,
    }));
  }, [node]);
  return heat;
}

export default function EnginePage() {
  const { value: node, problem, again } = usePageLoaded("node", api.node, POLL_MS);
  const heat = useHeat(node);
  if (node === null)
    return (
      <main className="page">
        {problem === null ? (
          <Loading what="the engine room" />
        ) : (
          <ProblemNote problem={problem} again={again} />
        )}
      </main>
    );
  const open = node.doors.filter((door) => door.listen !== null);
  const off = node.doors.filter((door) => door.listen === null).map((door) => door.door);
  return (
    <main className="page">
      <header className="page-head">
        <div>
          <h1>Engine room</h1>
          <p className="quiet figures">
            node {node.node} · run {node.run} · {node.version} · up {span(node.uptime_ms)} · as of{" "}
            {exactTime(node.as_of_ms, "UTC")}
            {off.length > 0 && ` · doors that are off: ${off.join(", ")}`}
          </p>
        </div>
        <span className="toolbar-rest" />
        <a
          className="button"
          href={addressOf("costs")}
          onClick={follow}
          title="Processor time of each part of the node, a request"
        >
          CPU cost
        </a>
      </header>
      {problem !== null && <ProblemNote problem={problem} again={again} />}
      <Tiles node={node} />
      <div className="cards">
        {open.map((door) => (
          <DoorCard
            key={door.door}
            door={door}
            heat={heat.columns.get(door.door) ?? []}
            sinceMs={heat.sinceMs}
          />
        ))}
        <Cores node={node} />
        <Queues node={node} />
        <Journal node={node} />
        <Memory node={node} />
        <Errors node={node} />
      </div>
    </main>
  );
}

function Tiles({ node }: { node: Node }) {
  const decisions = node.workers.reduce((sum, worker) => sum + worker.decisions_per_s, 0);
  const { proof } = node;
  const holds = proof.violations === 0 && proof.held_and_spent_ok;
  return (
    <dl className="figures-row">
      <Figure
        name="Verdicts per second"
        value={short(decisions)}
        note={`${short(grantedPerS(node.doors))} granted or bid, at all doors`}
      />
      <Figure
        name="Overspend proof"
        value={holds ? "✓ sums hold" : `▲ ${count(proof.violations)} violations`}
        tone={holds ? "good" : "bad"}
        note={`${count(proof.budgets)} budgets checked ${span(node.as_of_ms - proof.checked_ms)} ago; ${count(proof.debts)} settled above a hold or late, which is allowed`}
      />
      <Figure
        name="Journal"
        value={node.journal.failure ?? words(node.journal.state)}
        tone={node.journal.failure === null ? "plain" : "bad"}
        note={`seals in ${micros(node.journal.seal_us.p50)}, p99 ${micros(node.journal.seal_us.p99)}`}
      />
      <Figure
        name="Connections"
        value={count(node.connections.open)}
        note={`${count(node.connections.accepted)} since the start, ${count(node.connections.refused_full)} refused`}
      />
    </dl>
  );
}

function DoorCard({ door, heat, sinceMs }: { door: Door; heat: readonly number[][]; sinceMs: number }) {
  const most = Math.max(1, ...door.verdicts.map(({ per_s }) => per_s));
  const { latency } = door;
  const answered = answeredLately(latency);
  const quantiles: [string, number][] = [
    ["p50", latency.p50_us],
    ["p90", latency.p90_us],
    ["p99", latency.p99_us],
    ["p99.9", latency.p999_us],
    ["max", latency.max_us],
  ];
  return (
    <Card title={`Door ${door.door}`} wide>
      <div className="split">
        <table className="table table-bars">
          <thead>
            <tr>
              <th>Verdict</th>
              <th>
                <span className="hidden-text">Share</span>
              </th>
              <th className="end">A second</th>
            </tr>
          </thead>
          <tbody>
            {door.verdicts.map(({ verdict, per_s }) => (
              <tr key={verdict}>
                <td>{words(verdict)}</td>
                <td className="bar-cell">
                  <Bar part={per_s} whole={most} label={words(verdict)} />
                </td>
                <td className="end">{short(per_s)}</td>
              </tr>
            ))}
          </tbody>
        </table>
        <div>
          <dl className="quantiles">
            {quantiles.map(([name, us]) => (
              <div key={name}>
                <dt>{name}</dt>
                <dd>{quantile(latency, us)}</dd>
              </div>
            ))}
          </dl>
          <Heatmap
            columns={heat}
            label={
              answered
                ? `latency of door ${door.door}: median ${micros(latency.p50_us)}, 99 in 100 within ${micros(latency.p99_us)}`
                : `latency of door ${door.door}: nothing was measured in the last seconds`
            }
          />
          <p className="quiet">
            {answered ? "Door to verdict; stronger is more." : unmeasured(door)}{" "}
            {Number.isNaN(sinceMs)
              ? ""
              : `This page watches since ${exactTime(sinceMs, "UTC").replace(/\.\d+/, "")}, and keeps five minutes.`}
          </p>
        </div>
      </div>
    </Card>
  );
}

function Cores({ node }: { node: Node }) {
  return (
    <Card title="Workers" note="what a core's time goes to">
      <table className="table">
        <thead>
          <tr>
            <th>Core</th>
            <th>Busy</th>
            <th className="end">busy</th>
            <th className="end">waits</th>
            <th className="end">idle</th>
            <th className="end">Verdicts /s</th>
          </tr>
        </thead>
        <tbody>
          {node.workers.map((worker) => (
            <tr key={worker.core}>
              <td>{worker.core}</td>
              <td className="bar-cell">
                <Bar
                  part={worker.busy_ppm}
                  whole={1e6}
                  label={`core ${worker.core} busy`}
                  tone={worker.busy_ppm > 950_000 ? "warn" : "plain"}
                />
              </td>
              <td className="end">{percentOfPpm(worker.busy_ppm)}</td>
              <td className="end">{percentOfPpm(worker.wait_ppm)}</td>
              <td className="end">{percentOfPpm(worker.idle_ppm)}</td>
              <td className="end">{short(worker.decisions_per_s)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Card>
  );
}

function Queues({ node }: { node: Node }) {
  return (
    <Card title="Queues" note="depth against limit">
      <table className="table">
        <tbody>
          {node.queues.map(({ queue, depth, max }) => (
            <tr key={queue}>
              <th scope="row">{words(queue)}</th>
              <td className="bar-cell">
                <Bar
                  part={depth}
                  whole={max}
                  label={words(queue)}
                  tone={depth > max * NEAR_FULL ? "bad" : "plain"}
                />
              </td>
              <td className="end">{count(depth)}</td>
              <td className="end quiet">of {count(max)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Card>
  );
}

function Journal({ node: { journal } }: { node: Node }) {
  const rows: [string, string][] = [
    ["state", words(journal.state)],
    ["seal, median", micros(journal.seal_us.p50)],
    ["seal, p99", micros(journal.seal_us.p99)],
    ["seal, longest", micros(journal.seal_us.max)],
    ["lag", `${count(journal.lag_ms)} ms`],
    ["waits to be sealed", `${short(journal.unsealed_bytes)}B`],
    ["written", `${short(journal.bytes)}B`],
  ];
  return (
    <Card title="Journal">
      {journal.failure !== null && (
        <ProblemNote
          problem={{ type: "about:blank", title: "The journal fails.", status: 0, detail: journal.failure }}
        />
      )}
      <table className="table">
        <tbody>
          {rows.map(([name, value]) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              <td className="end">{value}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Card>
  );
}

const MEMORY_NAMES: Readonly<Record<string, string>> = {
  "memory.resident": "resident",
  "memory.in_use": "in use",
};

function Memory({ node: { counters } }: { node: Node }) {
  const all = counters.filter(({ counter }) => counter in MEMORY_NAMES);
  const parts = counters.filter(({ counter }) => counter === "memory.parts");
  const rows = [...all, ...parts.toSorted((a, b) => b.count - a.count)];
  return (
    <Card title="Memory" note="parts: what each kept when it was last built">
      <table className="table">
        <tbody>
          {rows.map(({ counter, of, count: bytes }) => (
            <tr key={`${counter} ${of ?? ""}`}>
              <th scope="row">{of === null ? MEMORY_NAMES[counter] : words(of)}</th>
              <td className="end">{short(bytes)}B</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Card>
  );
}

function Errors({ node: { errors } }: { node: Node }) {
  const met = errors.filter((error) => error.count > 0);
  const never = errors.filter((error) => error.count === 0);
  return (
    <Card title="Errors" note="since the start">
      {met.length === 0 ? (
        <p className="quiet">None of the {count(errors.length)} kinds.</p>
      ) : (
        <ErrorTable errors={met} />
      )}
      {never.length > 0 && (
        <details>
          <summary>
            {count(never.length)} {never.length === 1 ? "kind that was" : "kinds that were"} not met
          </summary>
          <ErrorTable errors={never} />
        </details>
      )}
    </Card>
  );
}

function ErrorTable({ errors }: { errors: Node["errors"] }) {
  return (
    <table className="table">
      <tbody>
        {errors.map((error) => (
          <tr key={error.code}>
            <th scope="row">
              <a href={error.doc}>{errorWords(error.code)}</a>
            </th>
            <td className="end">{count(error.count)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
