import { useEffect, useState } from "react";
import { api } from "../api/client";
import type { Budget, History, HoldCount, Line, Me } from "../api/types";
import { type Loaded, useLoaded } from "../api/use";
import { AuditTable } from "../audit/AuditTable";
import { reasonOf, words } from "../live/codes";
import type { Feed } from "../live/feed";
import { type Rounding, exactText, inUnits, moneyText } from "../money/money";
import { LineChart } from "../ui/LineChart";
import { amountText } from "../ui/axis";
import { Bar, Card, Chip, Empty, Figure, Loading, ProblemNote } from "../ui/parts";
import { count, micros, perSecond } from "../ui/numbers";
import { bandOf, paceText, statusOf } from "../ui/status";
import { dayAndTime, span } from "../ui/time";
import { isMade } from "../url/handle";
import { addressOf, follow } from "../url/router";
import { termText } from "../url/view";
import "./campaign.css";
import { ChangeDialog, type ChangeKind } from "./ChangeDialog";
import { debtReasons, isOverLimit } from "./debt";
import { Configuration } from "./FileLine";
import { WhyNot } from "./WhyNot";
import { outlook } from "./outlook";
import { visible } from "./text";

const REFRESH_MS = 5_000;
const HISTORY_MS = 60_000;
/** Budgets above one: at most three. */
const LEVELS_MAX = 4;
const DAY_MS = 86_400_000;

/** What put a flag there. */
const flagWords = (flag: string, budget: Budget): string | undefined =>
  flag === "debt"
    ? debtReasons(budget).join(" ")
    : flag === "edited"
      ? "Changed by hand, on top of the budgets file"
      : undefined;

const amounts = (texts: readonly (string | null)[], unit: string): (number | null)[] =>
  texts.map((text) => (text === null ? null : inUnits(Number(text), unit)));

/** A budget and those above it. */
async function budgetsFrom(id: string | null, signal: AbortSignal): Promise<Budget[]> {
  const found: Budget[] = [];
  for (let next = id; next !== null && found.length < LEVELS_MAX; next = found.at(-1)!.parent)
    found.push((await api.budget(next, signal)).budget);
  return found;
}

/** The steps of a history that end after an instant. */
function since(history: History | null, ms: number): History | null {
  if (history === null) return null;
  const from = history.t_ms.findIndex((end) => end > ms);
  const cut = <T,>(column: T[]): T[] => (from < 0 ? [] : column.slice(from));
  const { t_ms, spent, planned, asks, grants, wins, refusals, latency_p99_us } = history;
  return {
    ...history,
    t_ms: cut(t_ms),
    spent: cut(spent),
    planned: cut(planned),
    asks: cut(asks),
    grants: cut(grants),
    wins: cut(wins),
    refusals: cut(refusals),
    latency_p99_us: cut(latency_p99_us),
  };
}

interface Props {
  feed: Feed;
  me: Me | null;
  /** Its id or its handle. */
  name: string;
}

export default function CampaignPage({ feed, me, name }: Props) {
  const loaded = useLoaded(`budget ${name}`, (signal) => api.budget(name, signal), REFRESH_MS);
  const id = loaded.value?.budget.id ?? "";
  const nowMs = feed.freshness.nodeMs(Date.now());
  // Of the last day, whatever its window: the forecast looks at all of it, the charts at what is of the window.
  const history = useLoaded(
    `history ${id}`,
    async (signal) => (loaded.value === null ? null : api.history(id, nowMs - DAY_MS, nowMs, signal)),
    HISTORY_MS,
  );
  const parent = loaded.value?.budget.parent ?? null;
  const above = useLoaded(`above ${parent}`, (signal) => budgetsFrom(parent, signal), HISTORY_MS);
  // With the budget and its ETag as they were seen: what is loaded meanwhile must not hide a conflict.
  const [change, setChange] = useState<{ kind: ChangeKind; budget: Budget; etag: string } | null>(null);
  useEffect(() => {
    document.title = loaded.value === null ? "Weir" : `${loaded.value.budget.name} · Weir`;
    return () => void (document.title = "Weir");
  }, [loaded.value]);
  if (loaded.value === null)
    return (
      <main className="page">
        {loaded.problem === null ? <Loading what="the budget" /> : <Gone loaded={loaded} name={name} />}
      </main>
    );
  const { budget, etag } = loaded.value;
  const ofWindow = since(history.value, budget.window_start_ms ?? 0);
  return (
    <main className="page">
      <Heading
        budget={budget}
        parent={above.value?.[0] ?? null}
        nowMs={nowMs}
        may={me?.role === "operate" && !isMade(budget.id)}
        change={(kind) => setChange({ kind, budget, etag })}
      />
      {loaded.problem !== null && <ProblemNote problem={loaded.problem} again={loaded.again} />}
      <Figures budget={budget} above={above.value} history={history.value} nowMs={nowMs} />
      <div className="cards">
        <SpendCard budget={budget} history={{ ...history, value: ofWindow }} />
        <WhyNot id={id} budget={budget} />
        <Books budget={budget} />
        <Traffic budget={budget} history={ofWindow} />
        <Holds budget={budget} nowMs={nowMs} />
        <Configuration budget={budget} />
        <Card title="Changes" wide>
          <AuditTable
            key={etag}
            query={`?budget=${id}&max=20`}
            may={me?.role === "operate"}
            done={loaded.again}
          />
        </Card>
      </div>
      {change !== null && (
        <ChangeDialog
          {...change}
          close={() => setChange(null)}
          done={() => {
            setChange(null);
            loaded.again();
          }}
        />
      )}
    </main>
  );
}

function Gone({ loaded, name }: { loaded: Loaded<unknown>; name: string }) {
  if (loaded.problem?.status === 404)
    return (
      <>
        <h1 className="hidden-text">Not found</h1>
        <Empty title={`There is no budget ${name}`}>
          <a href={addressOf("campaigns")} onClick={follow}>
            All budgets
          </a>
        </Empty>
      </>
    );
  return <ProblemNote problem={loaded.problem!} again={loaded.again} />;
}

function Heading({
  budget,
  parent,
  nowMs,
  may,
  change,
}: {
  budget: Budget;
  parent: Budget | null;
  nowMs: number;
  may: boolean;
  change: (kind: ChangeKind) => void;
}) {
  const status = statusOf(budget.status);
  const back = () => history.length > 1 && history.back();
  return (
    <header className="page-head">
      <button type="button" className="button button-quiet" onClick={back} aria-label="Back">
        ←
      </button>
      <div>
        <h1>
          <bdi>{visible(budget.name) || `#${budget.id}`}</bdi>
        </h1>
        <p className="quiet">
          <span className="figures">{budget.id}</span>
          {budget.handle !== null && (
            <>
              {" "}
              ·{" "}
              <a
                className="handle"
                href={addressOf("campaign", budget.handle)}
                onClick={follow}
                title="Its page by its handle"
              >
                {budget.handle}
              </a>
            </>
          )}{" "}
          · {budget.unit} · {budget.tz} · {words(budget.pacing)}
          {budget.parent !== null && (
            <>
              {" "}
              · part of{" "}
              <a href={addressOf("campaign", budget.parent)} onClick={follow}>
                {parent?.handle ?? budget.parent}
              </a>
            </>
          )}
          {budget.template !== null && (
            <>
              {" "}
              · made from the template{" "}
              <a
                href={`${addressOf("campaigns")}?f=${encodeURIComponent(termText({ column: "template", is: "set", codes: [budget.template] }))}`}
                onClick={follow}
                title="All that were made from it"
              >
                {budget.template}
              </a>
              , which also has its limits
            </>
          )}
          {budget.flags
            .filter((flag) => flag !== "open")
            .map((flag) => (
              <span
                key={flag}
                className="flag"
                data-tone={flag === "debt" && !isOverLimit(budget) ? "plain" : "warn"}
                title={flagWords(flag, budget)}
              >
                {flag}
              </span>
            ))}
        </p>
      </div>
      <span className="page-status">
        <Chip status={status} />
        {budget.reason !== null && <span>{reasonOf(budget.reason, budget.campaign)}</span>}
        <span className="quiet">for {span(nowMs - budget.since_ms)}</span>
      </span>
      <span className="toolbar-rest" />
      <button type="button" className="button" disabled={!may} onClick={() => change("limit")}>
        Change limits…
      </button>
      <button
        type="button"
        className="button"
        disabled={!may}
        onClick={() => change(status === "paused" ? "resume" : "pause")}
      >
        {status === "paused" ? "Resume…" : "Pause…"}
      </button>
    </header>
  );
}

function Figures({
  budget,
  above,
  history,
  nowMs,
}: {
  budget: Budget;
  above: Budget[] | null;
  history: History | null;
  nowMs: number;
}) {
  const { unit } = budget;
  const pace = budget.index_ppm === null ? NaN : budget.index_ppm / 1e6;
  const band = bandOf(pace);
  const end = outlook(budget, above, history, nowMs);
  const money = (text: string | null, rounding?: Rounding) => (
    <span title={exactText(text === null ? null : BigInt(text), unit)}>
      {moneyText(text === null ? null : BigInt(text), unit, rounding)}
    </span>
  );
  return (
    <dl className="figures-row">
      <Figure name="Spent" value={money(budget.spent, "up")} note={<>of {money(budget.limit)}</>} />
      <Figure
        name="Remaining"
        value={money(budget.available)}
        note={<>{money(budget.held)} in holds</>}
        tone={budget.available.startsWith("-") ? "bad" : "plain"}
      />
      <Figure
        name="Pace"
        value={paceText(pace)}
        note={
          budget.window_planned === null ? (
            budget.pacing === "asap" ? (
              "asap follows no plan"
            ) : (
              "it has no plan"
            )
          ) : (
            <>
              {money(budget.window_spent)} of {money(budget.window_planned)} planned by now
            </>
          )
        }
        tone={band === "on" ? "good" : band === "none" ? "plain" : "warn"}
      />
      <Figure
        name="Today"
        value={money(budget.day_spent, "up")}
        note={
          budget.daily === null ? (
            "no daily limit"
          ) : (
            <>
              of {money(budget.daily)}; new day in {span((budget.day_ends_ms ?? NaN) - nowMs)}, {budget.tz}
            </>
          )
        }
      />
      {budget.impressions !== null && (
        <Figure
          name="Impressions"
          value={count(budget.impressions)}
          note={budget.cpm === null ? "none is billed yet" : <>{money(budget.cpm, "up")} per thousand</>}
        />
      )}
      <Figure name="Forecast" value={end.value} note={end.notes.join("; ")} />
      <Figure
        name="Flight ends"
        value={
          budget.end_ms === null
            ? "open"
            : budget.end_ms <= nowMs
              ? "over"
              : `in ${span(budget.end_ms - nowMs)}`
        }
        note={
          budget.end_ms === null ? "it has no end" : `${dayAndTime(budget.end_ms, budget.tz)}, ${budget.tz}`
        }
      />
    </dl>
  );
}

function SpendCard({ budget, history }: { budget: Budget; history: Loaded<History | null> }) {
  const { unit } = budget;
  const kept = history.value;
  return (
    <Card
      title="Spent against plan"
      note={`${unit}, times of ${budget.tz}; the band between is what it is behind or ahead`}
      wide
    >
      {history.problem !== null && <ProblemNote problem={history.problem} again={history.again} />}
      {kept !== null && kept.t_ms.length > 1 && (
        <LineChart
          title="Spent against plan"
          zone={budget.tz}
          timesMs={kept.t_ms}
          format={amountText}
          none="No spend yet."
          summary={`Spent ${moneyText(budget.window_spent === null ? null : BigInt(budget.window_spent), unit)}; planned by now ${moneyText(budget.window_planned === null ? null : BigInt(budget.window_planned), unit)}.`}
          band={[1, 2]}
          series={[
            { label: "spent", colour: "--series-1", values: amounts(kept.spent, unit), stepped: true },
            { label: "planned", colour: "--series-2", values: amounts(kept.planned, unit), dashed: true },
          ]}
        />
      )}
      {kept !== null && kept.t_ms.length <= 1 && (
        <p className="quiet">Nothing is kept yet; a point is added each minute.</p>
      )}
    </Card>
  );
}

const LINES: readonly [Line, string][] = [
  ["free", "free"],
  ["purses", "with the workers"],
  ["held", "in holds"],
  ["suspended", "suspended, of an earlier run"],
  ["expired", "expired, kept for late notices"],
  ["settled", "settled"],
  ["over_settled", "settled above holds"],
  ["late", "settled late"],
  ["inferred", "settled as a total says"],
  ["unknown_order", "settled for unknown orders"],
];

function Books({ budget }: { budget: Budget }) {
  const limit = Number(budget.limit);
  const isOver = isOverLimit(budget);
  return (
    <Card title="Books" note={`where each part of its limit is, ${budget.unit}`}>
      <table className="table">
        <thead className="hidden-text">
          <tr>
            <th>Line</th>
            <th>Share of the limit</th>
            <th>Amount</th>
          </tr>
        </thead>
        <tbody>
          {LINES.map(([line, name]) => (
            <tr key={line}>
              <th scope="row">{name}</th>
              <td className="bar-cell">
                <Bar
                  part={Number(budget.lines[line])}
                  whole={limit}
                  label={`${name}, share of the limit`}
                  tone={
                    isOver && (line === "late" || line === "over_settled" || line === "unknown_order")
                      ? "bad"
                      : "plain"
                  }
                />
              </td>
              <td className="end">{exactText(BigInt(budget.lines[line]), budget.unit)}</td>
            </tr>
          ))}
          <tr className="sum">
            <th scope="row">limit</th>
            <td />
            <td className="end">{exactText(BigInt(budget.limit), budget.unit)}</td>
          </tr>
        </tbody>
      </table>
      {debtReasons(budget).map((reason) => (
        <p key={reason} className="quiet">
          {reason}
        </p>
      ))}
    </Card>
  );
}

/** Workers do not count the holds of each budget that was made from a template. */
const isCounted = ({ id }: Budget, kind: HoldCount): boolean =>
  !isMade(id) || (kind !== "made" && kind !== "open");

const HOLDS: readonly [HoldCount, string, string][] = [
  ["made", "made", "asks and bids that were granted"],
  ["open", "open", "within their time, and neither settled nor released"],
  ["settled", "settled", "spent, while their money was set aside"],
  ["released", "released", "given back, while their money was set aside"],
  [
    "expired",
    "expired",
    "past their time, and neither settled nor released: not won by their deadline, or won and not billed in time",
  ],
  ["late", "settled late", "spent when their money was gone; they stay among the expired or released"],
];

function wholeAgain({ bucket, used, ends_ms }: Budget["windows"][number], nowMs: number): string {
  if (BigInt(used) <= 0n) return "it is";
  if (bucket) return "bit by bit";
  return ends_ms > nowMs ? `in ${span(ends_ms - nowMs)}` : "with the next ask";
}

/** What became of its holds. A dash is for what nobody counts, which is not nothing. */
function Holds({ budget, nowMs }: { budget: Budget; nowMs: number }) {
  return (
    <Card title="Holds" note="its own, since the start of the run">
      <dl className="quantiles">
        {HOLDS.map(([kind, name, about]) => (
          <div key={kind} title={about}>
            <dt>{name}</dt>
            <dd>{count(isCounted(budget, kind) ? (budget.holds[kind] ?? NaN) : NaN)}</dd>
          </div>
        ))}
      </dl>
      {budget.windows.length > 0 && (
        <>
          <h3>Windows</h3>
          <table className="table">
            <thead>
              <tr>
                <th>In each</th>
                <th className="end">limit</th>
                <th className="end">used</th>
                <th className="end">left</th>
                <th className="end">whole again</th>
              </tr>
            </thead>
            <tbody>
              {budget.windows.map((window) => (
                <tr key={window.period}>
                  <td>
                    {window.period}
                    {window.bucket && " (bucket)"}
                  </td>
                  {[window.limit, window.used, window.left].map((base, column) => (
                    <td className="end" key={column}>
                      {exactText(BigInt(base), budget.unit)}
                    </td>
                  ))}
                  <td className="end quiet">{wholeAgain(window, nowMs)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </>
      )}
      <h3>Frequency caps</h3>
      {budget.caps.length === 0 ? (
        <p className="quiet">None.</p>
      ) : (
        <table className="table">
          <thead>
            <tr>
              <th>A user sees it at most</th>
              <th>in</th>
              <th>of the</th>
            </tr>
          </thead>
          <tbody>
            {budget.caps.map((cap) => (
              <tr key={cap.per + cap.of}>
                <td>{count(cap.max)} ×</td>
                <td>{cap.per}</td>
                <td>{cap.of}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Card>
  );
}

function Traffic({ budget, history }: { budget: Budget; history: History | null }) {
  const perStep = (values: (number | null)[]) =>
    values.map((value) => (value === null || history === null ? null : value / (history.step_ms / 1000)));
  // Steps in which nothing was answered have a latency of nothing.
  const latency = history?.latency_p99_us.findLast((value) => value !== null && value > 0) ?? null;
  return (
    <Card
      title="Asked and granted"
      note={`per second, ${budget.tz}${latency === null ? "" : `; the whole node answered 99 in 100 in ${micros(latency)}`}`}
      wide
    >
      {history !== null && history.t_ms.length > 1 ? (
        <LineChart
          title="Asked and granted"
          zone={budget.tz}
          timesMs={history.t_ms}
          format={perSecond}
          height={200}
          none="No asks yet in this time."
          summary={`${count(history.asks.reduce<number>((sum, value) => sum + (value ?? 0), 0))} asks in this window.`}
          series={[
            { label: "asks", colour: "--series-3", values: perStep(history.asks) },
            { label: "grants", colour: "--series-1", values: perStep(history.grants), filled: true },
            { label: "refusals", colour: "--series-4", values: perStep(history.refusals) },
          ]}
        />
      ) : (
        <p className="quiet">Nothing is kept yet.</p>
      )}
    </Card>
  );
}
