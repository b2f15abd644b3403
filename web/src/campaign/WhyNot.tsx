// Why a campaign does not spend: what stopped its bids, what refused its asks, and the last hundred of them.
import { useState } from "react";
import { api } from "../api/client";
import type { Budget, Refusals } from "../api/types";
import { useLoaded } from "../api/use";
import { sentence, words } from "../live/codes";
import { exactText } from "../money/money";
import { Bar, Card, Chip, ProblemNote } from "../ui/parts";
import { count } from "../ui/numbers";
import { statusOf } from "../ui/status";
import { exactTime } from "../ui/time";

const REFRESH_MS = 10_000;

function verdict(budget: Budget): string {
  if (budget.reason !== null) return sentence(budget.reason);
  return budget.status === "active" ? "Nothing stands in its way" : words(budget.status);
}

export function WhyNot({ id, budget }: { id: string; budget: Budget }) {
  const { value, problem, again } = useLoaded(
    `refusals ${id}`,
    (signal) => api.refusals(id, signal),
    REFRESH_MS,
  );
  const [recent, setRecent] = useState(false);
  return (
    <Card
      title="Why not spending"
      note="since the start of the run"
      actions={
        <button
          type="button"
          className="button button-quiet"
          aria-pressed={recent}
          onClick={() => setRecent(!recent)}
        >
          Last refusals
        </button>
      }
    >
      <p className="answer">
        <Chip status={statusOf(budget.status)} /> {verdict(budget)}
      </p>
      {problem !== null && <ProblemNote problem={problem} again={again} />}
      {value !== null &&
        (recent ? (
          <Recent refusals={value} budget={budget} />
        ) : (
          <Counts refusals={value} campaign={budget.campaign} />
        ))}
    </Card>
  );
}

function Counts({ refusals, campaign }: { refusals: Refusals; campaign: boolean }) {
  const { verdicts, why, surveyed, survey_every } = refusals;
  const none = verdicts.length === 0 && why.length === 0;
  if (none) return <p className="quiet">None of its asks was refused in this run.</p>;
  return (
    <>
      {why.length > 0 && (
        <Bars
          title="What kept it from bidding"
          note={`of ${count(surveyed)} surveyed, 1 in ${count(survey_every)}`}
          rows={why.map((row) => [row.reason, row.count])}
        />
      )}
      {verdicts.length > 0 && (
        <Bars
          title={campaign ? "What its asks met" : "What asks met"}
          note="asks"
          rows={verdicts.map((row) => [row.verdict, row.count])}
        />
      )}
    </>
  );
}

function Bars({ title, note, rows }: { title: string; note: string; rows: [string, number][] }) {
  const most = Math.max(1, ...rows.map(([, times]) => times));
  return (
    <table className="table table-bars">
      <thead>
        <tr>
          <th>{title}</th>
          <th>
            <span className="hidden-text">Share</span>
          </th>
          <th className="end">{note}</th>
        </tr>
      </thead>
      <tbody>
        {rows.map(([name, times]) => (
          <tr key={name}>
            <td>{words(name)}</td>
            <td className="bar-cell">
              <Bar part={times} whole={most} label={`${words(name)}, beside the most frequent`} />
            </td>
            <td className="end">{count(times)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Recent({ refusals, budget }: { refusals: Refusals; budget: Budget }) {
  if (refusals.recent.length === 0) return <p className="quiet">None was noted.</p>;
  return (
    <div className="scroll" tabIndex={0} role="region" aria-label="Last refusals">
      <table className="table">
        <thead>
          <tr>
            <th>Time</th>
            <th>Verdict</th>
            <th className="end">Asked for</th>
          </tr>
        </thead>
        <tbody>
          {refusals.recent.map((row, i) => (
            <tr key={`${row.at_ms} ${i}`}>
              <td>{exactTime(row.at_ms, budget.tz)}</td>
              <td>{words(row.verdict)}</td>
              <td className="end">{row.amount === "" ? "–" : exactText(BigInt(row.amount), budget.unit)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
