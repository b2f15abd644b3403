// What the hot path cost in instructions, each time that a count was accepted.
import { useState } from "react";
import { api } from "../api/client";
import type { CostHistory as Accepted } from "../api/types";
import { useLoaded } from "../api/use";
import { Card, ProblemNote } from "../ui/parts";
import { count, percentOfPpm } from "../ui/numbers";
import "./costs.css";
import { lastChangePpm, sparkOf } from "./spark";

const WIDTH = 220;
const HEIGHT = 36;

export function CostHistory() {
  const { value, problem, again } = useLoaded("cost history", api.costHistory);
  const [table, setTable] = useState(false);
  const some = value !== null && value.workloads.length > 0;
  return (
    <Card
      title="From commit to commit"
      note="instructions of an operation, as counted and accepted by the gate"
      wide
      actions={
        some && (
          <button
            type="button"
            className="button button-quiet"
            aria-pressed={table}
            onClick={() => setTable(!table)}
          >
            Table
          </button>
        )
      }
    >
      {problem !== null && <ProblemNote problem={problem} again={again} />}
      {value !== null && !some && (
        <p className="quiet">None: this program was not built from its repository, where they are kept.</p>
      )}
      {some && (table ? <Points history={value} /> : <Sparks history={value} />)}
    </Card>
  );
}

function Sparks({ history: { band_ppm, workloads } }: { history: Accepted }) {
  const band = percentOfPpm(band_ppm, 0);
  return (
    <>
      <table className="table table-history">
        <thead>
          <tr>
            <th>Workload</th>
            <th>Accepted counts, the band is {band} around the last</th>
            <th className="end">Last</th>
            <th className="end">Since the one before</th>
            <th>On top of</th>
          </tr>
        </thead>
        <tbody>
          {workloads.map(({ workload, points }) => {
            const values = points.map((point) => point.instructions);
            const last = points.at(-1);
            return (
              <tr key={workload}>
                <th scope="row">{workload}</th>
                <td>
                  <Sparkline values={values} bandPpm={band_ppm} label={`${workload}: ${inWords(values)}`} />
                </td>
                <td className="end strong">{last === undefined ? "–" : count(last.instructions)}</td>
                <td className="end">{changeText(values)}</td>
                <td className="figures" title={last?.reason}>
                  {last?.on_top_of} <span className="quiet">{last?.date}</span>
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
      <p className="quiet">
        A commit whose count lies above the band is refused until somebody accepts it with a reason.
      </p>
    </>
  );
}

const inWords = (values: readonly number[]): string =>
  values.length === 1
    ? `one count, ${count(values[0]!)}`
    : `${count(values.length)} counts, from ${count(values[0]!)} to ${count(values.at(-1)!)}`;

function changeText(values: readonly number[]): string {
  const ppm = lastChangePpm(values);
  if (ppm === null) return "–";
  return `${ppm > 0 ? "+" : ""}${percentOfPpm(ppm).replace("-", "−")}`;
}

function Sparkline({
  values,
  bandPpm,
  label,
}: {
  values: readonly number[];
  bandPpm: number;
  label: string;
}) {
  const spark = sparkOf(values, bandPpm, WIDTH, HEIGHT);
  if (spark === null) return null;
  const { points, band } = spark;
  const last = points.at(-1)!;
  return (
    <svg
      className="cost-spark"
      viewBox={`-4 -4 ${WIDTH + 8} ${HEIGHT + 8}`}
      width={WIDTH}
      height={HEIGHT}
      role="img"
      aria-label={label}
    >
      <rect x="0" y={band.top} width={WIDTH} height={Math.max(1, band.bottom - band.top)} />
      <polyline points={points.map(({ x, y }) => `${x},${y}`).join(" ")} />
      <circle cx={last.x} cy={last.y} r="3" />
    </svg>
  );
}

function Points({ history: { workloads } }: { history: Accepted }) {
  return (
    <div className="scroll" tabIndex={0} role="region" aria-label="Accepted counts, as a table">
      <table className="table">
        <thead>
          <tr>
            <th>Date</th>
            <th>Workload</th>
            <th className="end">Instructions</th>
            <th>On top of</th>
            <th>Compiler</th>
            <th>Why</th>
          </tr>
        </thead>
        <tbody>
          {workloads.flatMap(({ workload, points }) =>
            points
              .map((point, i) => (
                <tr key={`${workload} ${i}`}>
                  <td>{point.date}</td>
                  <th scope="row">{workload}</th>
                  <td className="end">{count(point.instructions)}</td>
                  <td className="figures">{point.on_top_of}</td>
                  <td>{point.rustc}</td>
                  <td className="wrap">{point.reason}</td>
                </tr>
              ))
              .reverse(),
          )}
        </tbody>
      </table>
    </div>
  );
}
