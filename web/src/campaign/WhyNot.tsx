// Why a campaign does not spend: what stopped its bids, what refused its asks, and the last hundred of them.
import { useState } from "react";
import { api } from "../api/client";
import type { Budget, Refusals } from "../api/types";
import { useLoaded } from "../api/use";
import { reasonOf, sentence, words } from "../live/codes";
import { Bar, Card, Chip, ProblemNote } from "../ui/parts";
import { count } from "../ui/numbers";
import { statusOf } from "../ui/status";
import { exactTime, isoTime } from "../ui/time";
import { addressOf, follow } from "../url/router";
import { SAMPLE_MIN, byVerdict, keptFrom, noneOf, sampleOf, soFar, whyFast } from "./refusals";

const REFRESH_MS = 10_000;

function verdict(budget: Budget): string {
  if (budget.reason !== null) return reasonOf(budget.reason, budget.campaign);
  return budget.status === "active" ? "Nothing stands in its way" : words(budget.status);
}

export function WhyNot({ id, budget }: { id: string; budget: Budget }) {
  const { value, problem, again } = useLoaded(
    `refusals ${id}`,
    (signal) => api.refusals(id, signal),
    REFRESH_MS,
  );
  const [recent, setRecent] = useState(false);
  const fast = whyFast(budget);
  return (
    <Card
      title={fast === null ? "Why not spending" : "Why it spends as it does"}
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
      {!recent && <Facts budget={budget} refusals={value} />}
      {fast !== null && <p className="quiet">Why so fast: {fast}.</p>}
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

/** What it did, and what kept it from more: counts beside the reason, which may come from either. */
function Facts({ budget, refusals }: { budget: Budget; refusals: Refusals | null }) {
  const done = soFar(budget);
  const kept = refusals === null || refusals.why.length === 0 ? null : keptFrom(sampleOf(refusals));
  const facts = [done, kept].filter((fact) => fact !== null);
  return facts.length === 0 ? null : <p>{facts.join(" ")}</p>;
}

function Counts({ refusals, campaign }: { refusals: Refusals; campaign: boolean }) {
  const { verdicts, why } = refusals;
  const none = verdicts.length === 0 && why.length === 0;
  if (none) return <p className="quiet">None of its asks was refused in this run.</p>;
  return (
    <>
      {why.length > 0 && <Sampled refusals={refusals} />}
      {verdicts.length > 0 && (
        <Bars
          title={campaign ? "What its asks met" : "What asks met"}
          note="asks, this run"
          rows={verdicts.map(verdictRow)}
        />
      )}
    </>
  );
}

/** Why a campaign did not bid: counted in a sample, of which the size is said. */
function Sampled({ refusals }: { refusals: Refusals }) {
  const { wanted, unwanted, rows } = sampleOf(refusals);
  return (
    <>
      {wanted < SAMPLE_MIN && (
        <p className="quiet">
          For more wait, or start the node with <code>WEIR_OPENRTB__SURVEY_EVERY=1</code> while there is
          little traffic.
        </p>
      )}
      {rows.length > 0 && (
        <Bars
          title="What kept it from bidding"
          note="of those it wants"
          whole={wanted}
          rows={rows.map(({ reason, count: seen }) => ({
            name: sentence(reason),
            size: seen,
            text: `${count(seen)} of ${count(wanted)} sampled`,
          }))}
        />
      )}
      <p className="quiet">
        The sample: {count(refusals.surveyed)} of {count(refusals.auctioned)} impressions since the campaigns
        last changed. {count(unwanted)} of them it does not want: place, person, time or size.
      </p>
    </>
  );
}

const verdictRow = ({ verdict, count: times }: { verdict: string; count: number }): BarRow => ({
  name: words(verdict),
  size: times,
  text: count(times),
  about: sentence(verdict),
});

interface BarRow {
  name: string;
  size: number;
  text: string;
  about?: string;
}

/** Bars are as long as their part of `whole`; without one, beside the most frequent. */
function Bars({ title, note, rows, whole }: { title: string; note: string; rows: BarRow[]; whole?: number }) {
  const most = whole ?? Math.max(1, ...rows.map(({ size }) => size));
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
        {rows.map(({ name, size, text, about }) => (
          <tr key={name} title={about}>
            <td>{name}</td>
            <td className="bar-cell">
              <Bar
                part={size}
                whole={most}
                label={
                  whole === undefined ? `${name}, beside the most frequent` : `${name}, share of the sample`
                }
              />
            </td>
            <td className="end">{text}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Recent({ refusals: { recent, recent_of }, budget }: { refusals: Refusals; budget: Budget }) {
  if (recent.length === 0) return <p className="quiet">{noneOf(recent_of, budget.campaign)}</p>;
  const others = recent.some((row) => row.budget !== budget.id);
  return (
    <>
      <Bars
        title="Why"
        note={`of the last ${count(recent.length)}`}
        rows={byVerdict(recent).map(verdictRow)}
      />
      <div className="scroll" tabIndex={0} role="region" aria-label="Last refusals">
        <table className="table">
          <thead>
            <tr>
              <th>Time, {budget.tz}</th>
              <th>Why</th>
              {others && <th className="end">Budget</th>}
            </tr>
          </thead>
          <tbody>
            {recent.map((row, i) => (
              <tr key={`${row.at_ms} ${i}`}>
                <td title={isoTime(row.at_ms)}>{exactTime(row.at_ms, budget.tz)}</td>
                <td>{sentence(row.verdict)}</td>
                {others && (
                  <td className="end">
                    <a href={addressOf("campaign", row.budget)} onClick={follow}>
                      {row.budget}
                    </a>
                  </td>
                )}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}
