// The cost sheet of the last minute: what each abstraction takes of a request, what another way would, and why it may stay.
import { api } from "../api/client";
import type { CostRow, Costs, Nanos } from "../api/types";
import { usePageLoaded } from "../api/use";
import { words } from "../live/codes";
import { Bar, Card, Empty, Figure, Loading, ProblemNote } from "../ui/parts";
import { count } from "../ui/numbers";
import { addressOf, follow } from "../url/router";
import { CostHistory } from "./CostHistory";
import { fixedNanos, isFixed, middle, nanos, noBalance, otherNotes, ratioWords, reading } from "./nanos";

const REFRESH_MS = 60_000;
/** The flag of rows without an alternative: their dash says it. */
const NONE_COMPARED = "no_alternative";

export default function CostsPage() {
  const { value, problem, again } = usePageLoaded("costs", api.costs, REFRESH_MS);
  return (
    <main className="page">
      <header className="page-head">
        <a className="button button-quiet" href={addressOf("engine")} onClick={follow}>
          ← Engine room
        </a>
        <div>
          <h1>CPU cost</h1>
          {value !== null && (
            <p className="quiet">
              {value.machine} · {value.date} · {count(value.seconds)} s · {count(value.requests.count)}{" "}
              {value.requests.unit}s
            </p>
          )}
        </div>
      </header>
      {problem !== null && <ProblemNote problem={problem} again={again} />}
      {value === null ? (
        problem === null && <Loading what="the cost sheet, which takes a moment to measure" />
      ) : (
        <Sheet sheet={value} />
      )}
      <CostHistory />
    </main>
  );
}

function Sheet({ sheet }: { sheet: Costs }) {
  const shown = sheet.groups.filter(({ rows }) => rows.length > 0);
  if (shown.length === 0)
    return (
      <Empty title="Nothing was asked in this time">
        <p>
          Send it some traffic, as <code>weir hammer</code> does, and come back.
        </p>
      </Empty>
    );
  return (
    <>
      <Totals sheet={sheet} />
      {shown.map((group) => (
        <GroupCard key={group.name} name={group.name} rows={group.rows} unit={sheet.requests.unit} />
      ))}
      {otherNotes(sheet).length > 0 && (
        <ul className="notes quiet">
          {otherNotes(sheet).map((note) => (
            <li key={note}>{note}</li>
          ))}
        </ul>
      )}
    </>
  );
}

function Totals({ sheet }: { sheet: Costs }) {
  const { totals, requests, seconds } = sheet;
  const unit = requests.unit;
  const fixed = fixedNanos(sheet.groups);
  const recorded = totals.recorded_ns_per_request;
  // What a request takes for itself: the rest would pass without it, too.
  const own =
    recorded === null || requests.count === 0 ? null : recorded - (fixed * seconds) / requests.count;
  const { share, why } = noBalance(sheet);
  return (
    <>
      <dl className="figures-row">
        <Figure
          name={`Processor time a ${unit}`}
          value={nanos(totals.cpu_ns_per_request)}
          note="all threads, as the kernel counts it"
        />
        <Figure name={`A ${unit}, in the rows below`} value={nanos(own)} note="what the probes saw of it" />
        <Figure
          name="A second, whatever comes"
          value={nanos(fixed)}
          note="slow loop of pacing, gauges, upkeep"
        />
        <Figure
          name="Not accounted for"
          value={share === null ? "–" : `${(share * 100).toFixed(1).replace("-", "−")} %`}
          note={
            share === null ? "no balance: rows and processor time are too far apart" : "of the processor time"
          }
        />
      </dl>
      {why.map((note) => (
        <p key={note} className="quiet" role="note">
          {note}
        </p>
      ))}
    </>
  );
}

function GroupCard({ name, rows, unit }: { name: string; rows: CostRow[]; unit: string }) {
  const ofRequests = rows.filter((row) => !isFixed(row));
  const most = Math.max(1e-9, ...ofRequests.map((row) => middle(row.per_request) ?? 0));
  return (
    <Card title={name} note={`${count(rows.length)} rows, dearest a ${unit} longest`} wide>
      <div className="scroll-wide" tabIndex={0} role="region" aria-label={`Costs of ${name}`}>
        <table className="table table-costs">
          <thead>
            <tr>
              <th>Abstraction</th>
              <th className="end">A {unit}</th>
              <th>
                <span className="hidden-text">Share</span>
              </th>
              <th className="end">Once</th>
              <th className="end">p99</th>
              <th className="end">Instructions</th>
              <th>Another way</th>
              <th className="end">Its time</th>
              <th>Why it may stay</th>
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <Row key={row.name} row={row} most={most} />
            ))}
          </tbody>
        </table>
      </div>
    </Card>
  );
}

function once(reading: Nanos, per: string) {
  return reading === null ? undefined : `a ${per}`;
}

function Row({ row, most }: { row: CostRow; most: number }) {
  const { alternative } = row;
  return (
    <tr>
      <th scope="row" title={row.place}>
        <span className={row.depth > 0 ? "indent quiet" : undefined}>{row.name}</span>
      </th>
      <td className="end strong">
        {reading(row.per_request)}
        {isFixed(row) && " /s"}
      </td>
      <td className="bar-cell">
        {isFixed(row) ? (
          <span className="quiet">fixed</span>
        ) : (
          <Bar part={middle(row.per_request) ?? 0} whole={most} label={`${row.name}, beside the dearest`} />
        )}
      </td>
      <td className="end" title={once(row.mean, row.per.unit)}>
        {reading(row.mean)}
      </td>
      <td className="end quiet">{reading(row.p99)}</td>
      <td className="end quiet">{row.instructions === null ? "–" : count(row.instructions)}</td>
      <td>{alternative?.name ?? <span className="quiet">–</span>}</td>
      <td className="end" title={alternative?.measured}>
        {alternative === null ? "–" : ratioWords(alternative)}
      </td>
      <td className="wrap">
        {row.justification}
        {row.flags
          .filter((flag) => flag !== NONE_COMPARED)
          .map((flag) => (
            <span key={flag} className="flag">
              {words(flag)}
            </span>
          ))}
      </td>
    </tr>
  );
}
