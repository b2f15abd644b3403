// Reports: impressions, clicks and spend by campaign, exchange, place, creative, country and time, as the books have them.
import { type FormEvent, useMemo, useState } from "react";
import { api, problemOf } from "../api/client";
import type { Problem, Report, ReportCounts, ReportRow } from "../api/types";
import { usePageLoaded } from "../api/use";
import type { Feed } from "../live/feed";
import { groupedDecimal } from "../money/money";
import { Card, Choice, Empty, Loading, ProblemNote } from "../ui/parts";
import { saveFile } from "../ui/save";
import { count } from "../ui/numbers";
import { dayAndSecond, dayAndTime, isoTime } from "../ui/time";
import { addressOf, follow, go } from "../url/router";
import { type Ask, DAYS, NAMES, TIMES, askOf, columnsOf, queryOf, searchOf } from "./ask";

/** Rows on the page; the CSV has all. */
const SHOWN_MOST = 500;
const NUMBERS = ["impressions", "clicks", "spent", "ctr", "cpm", "cpc"] as const;
type NumberColumn = (typeof NUMBERS)[number];
const TITLES: Record<string, string> = { ctr: "CTR", cpm: "CPM", cpc: "CPC" };
const DAY_WORDS = { "1": "24 hours", "7": "7 days", "30": "30 days", "0": "All" } as const;
const TIME_WORDS = { all: "No time", day: "Days", hour: "Hours" } as const;

const titleOf = (column: string): string => TITLES[column] ?? column[0]!.toUpperCase() + column.slice(1);

export default function ReportsPage({ feed, search }: { feed: Feed; search: string }) {
  const ask = useMemo(() => askOf(search), [search]);
  const set = (more: Partial<Ask>) => go(addressOf("reports") + searchOf({ ...ask, ...more }), true);
  const load = (signal: AbortSignal) => api.report(queryOf(ask, Date.now()), signal);
  const { value: report, problem, again } = usePageLoaded(`report ${searchOf(ask)}`, load, 0);
  return (
    <main className="page">
      <h1>Reports</h1>
      <Controls ask={ask} set={set} again={again} />
      {problem !== null && <ProblemNote problem={problem} again={again} />}
      {report === null && problem === null && <Loading what="the report" />}
      {report !== null && <Rows feed={feed} ask={ask} report={report} />}
    </main>
  );
}

function Controls({ ask, set, again }: { ask: Ask; set: (more: Partial<Ask>) => void; again: () => void }) {
  const [budgets, setBudgets] = useState(ask.budgets);
  const toggle = (name: Ask["names"][number]) =>
    set({ names: NAMES.filter((one) => (one === name) !== ask.names.includes(one)) });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (budgets === ask.budgets) again();
    else set({ budgets });
  };
  return (
    <form className="toolbar report-ask" onSubmit={submit}>
      <div className="choice" role="group" aria-label="Rows by">
        {NAMES.map((name) => (
          <button
            key={name}
            type="button"
            aria-pressed={ask.names.includes(name)}
            onClick={() => toggle(name)}
          >
            {titleOf(name)}
          </button>
        ))}
      </div>
      <Choice
        label="Time in rows"
        value={ask.time}
        choose={(time) => set({ time })}
        options={TIMES.map((time) => [time, TIME_WORDS[time], `Rows by ${time}`])}
      />
      <Choice
        label="Since"
        value={ask.days}
        choose={(days) => set({ days })}
        options={DAYS.map((days) => [days, DAY_WORDS[days], `The last of what is kept: ${DAY_WORDS[days]}`])}
      />
      <label className="field">
        <span className="hidden-text">Budgets, by id or handle, separated by commas</span>
        <input
          value={budgets}
          placeholder="All budgets"
          onChange={(event) => setBudgets(event.target.value)}
        />
      </label>
      <button type="submit" className="button">
        Make report
      </button>
    </form>
  );
}

const valueOf = (of: ReportCounts, column: NumberColumn): number => Number(of[column] ?? NaN);

/** The largest first; those without a value last. */
function sorted(rows: readonly ReportRow[], column: NumberColumn | null): readonly ReportRow[] {
  if (column === null) return rows;
  const keyed = rows.map((row) => ({ row, key: valueOf(row, column) }));
  keyed.sort((a, b) => (Number.isNaN(a.key) ? 1 : Number.isNaN(b.key) ? -1 : b.key - a.key));
  return keyed.map(({ row }) => row);
}

function Rows({ feed, ask, report }: { feed: Feed; ask: Ask; report: Report }) {
  const [by, setBy] = useState<NumberColumn | null>(ask.time === "all" ? "spent" : null);
  const [failed, setFailed] = useState<Problem | null>(null);
  const rows = useMemo(() => sorted(report.rows, by), [report, by]);
  const names = useMemo(() => namesOf(feed), [feed, report]);
  const save = () =>
    api.reportCsv(queryOf(ask, Date.now())).then(
      (blob) => saveFile(blob, `weir-report-${isoTime(report.as_of_ms).replaceAll(":", "")}.csv`),
      (error: unknown) => setFailed(problemOf(error)),
    );
  if (report.rows.length === 0)
    return (
      <Empty title="Nothing was booked">
        <p>
          {report.kept_from_ms === null
            ? "No impression was counted yet."
            : `Hours are kept from ${dayAndTime(report.kept_from_ms, "UTC")} on.`}{" "}
          <a href="/docs/api.md#312-reports">Reports</a>
        </p>
      </Empty>
    );
  const columns = columnsOf(ask);
  const kept =
    report.kept_from_ms === null ? "" : `, complete from ${dayAndTime(report.kept_from_ms, "UTC")}`;
  const more = rows.length > SHOWN_MOST ? `the first ${count(SHOWN_MOST)} of ` : "";
  return (
    <Card
      title="Report"
      note={`${more}${count(rows.length)} rows, as of ${dayAndSecond(report.as_of_ms, "UTC")}${kept}`}
      actions={
        <button type="button" className="button" onClick={() => void save()}>
          CSV
        </button>
      }
      wide
    >
      {failed !== null && <ProblemNote problem={failed} />}
      <div className="scroll-wide" tabIndex={0} role="region" aria-label="Report, as a table">
        <table className="table">
          <thead>
            <tr>
              {columns.map((column) => (
                <th key={column}>{titleOf(column)}</th>
              ))}
              <th>Unit</th>
              {NUMBERS.map((column) => (
                <th key={column} className="end" aria-sort={by === column ? "descending" : "none"}>
                  <button
                    type="button"
                    className="button button-quiet"
                    onClick={() => setBy(by === column ? null : column)}
                  >
                    {titleOf(column)}
                    {by === column && <span aria-hidden="true"> ▼</span>}
                  </button>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {report.totals.map((total) => (
              <tr key={total.unit} className="sum">
                {columns.map((column, at) => (
                  <td key={column}>{at === 0 ? "All rows" : ""}</td>
                ))}
                <Counts of={total} />
              </tr>
            ))}
            {rows.slice(0, SHOWN_MOST).map((row, at) => (
              <tr key={at}>
                {columns.map((column) => (
                  <td key={column}>
                    {column === "campaign" ? (
                      <a href={addressOf("campaign", row.campaign)} onClick={follow}>
                        {names.get(row.campaign!) ?? row.campaign}
                      </a>
                    ) : (
                      row[column as keyof ReportRow] || <span className="quiet">none</span>
                    )}
                  </td>
                ))}
                <Counts of={row} />
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Card>
  );
}

function Counts({ of }: { of: ReportCounts }) {
  return (
    <>
      <td>{of.unit}</td>
      <td className="end">{count(of.impressions)}</td>
      <td className="end">{count(of.clicks)}</td>
      <td className="end">{groupedDecimal(of.spent)}</td>
      <td className="end">{of.ctr === null ? "–" : `${(Number(of.ctr) * 100).toFixed(2)} %`}</td>
      <td className="end">{groupedDecimal(of.cpm)}</td>
      <td className="end">{groupedDecimal(of.cpc)}</td>
    </>
  );
}

function namesOf({ table }: Feed): ReadonlyMap<string, string> {
  const names = new Map<string, string>();
  table?.ids.forEach((id, row) => names.set(id, table.names[row] || id));
  return names;
}
