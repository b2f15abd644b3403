// One campaign: pause, resume or other limits, with the ETag of what was seen.
import { useState } from "react";
import { api, problemOf } from "../api/client";
import type { Budget, Changes, Problem, WindowLimits } from "../api/types";
import { effectWords, pacingWords } from "../campaigns/effect";
import { PERIODS } from "../live/codes";
import { isLarge, moneyText, parseAmount, plainAmount } from "../money/money";
import { Dialog, ProblemNote } from "../ui/parts";
import { WindowFields } from "./WindowFields";
import { periodsGone, windowChange, windowForm } from "./windows";

export type ChangeKind = "pause" | "resume" | "limit";

interface Props {
  kind: ChangeKind;
  budget: Budget;
  etag: string;
  close: () => void;
  done: () => void;
}

const TITLE = { pause: "Pause", resume: "Resume", limit: "Change limits" } as const;

/** Only what differs; a text says what is wrong. An empty daily limit takes it away. */
export function limitChanges(
  budget: Pick<Budget, "limit" | "daily" | "unit">,
  limit: string,
  daily: string,
  windows?: WindowLimits | null | string,
): Changes | string {
  const [newLimit, newDaily] = [
    parseAmount(limit, budget.unit),
    daily.trim() === "" ? null : parseAmount(daily, budget.unit),
  ];
  if (newLimit === null || newLimit < 0n) return `The limit is an amount in ${budget.unit}.`;
  if (daily.trim() !== "" && (newDaily === null || newDaily < 0n))
    return `The daily limit is an amount in ${budget.unit}, or empty.`;
  if (typeof windows === "string") return windows;
  const changes: Changes = {};
  if (windows !== undefined) changes.windows = windows;
  if (newLimit.toString() !== budget.limit) changes.limit = plainAmount(newLimit, budget.unit);
  if ((newDaily?.toString() ?? null) !== budget.daily)
    changes.daily = newDaily === null ? null : plainAmount(newDaily, budget.unit);
  return Object.keys(changes).length === 0 ? "Nothing differs." : changes;
}

/** In money, as for many budgets at once. */
function effects(kind: ChangeKind, budget: Budget, changes: Changes): string[] {
  const { unit } = budget;
  const after = changes.limit == null ? null : parseAmount(changes.limit, unit);
  const line = {
    unit,
    rows: 1,
    limit_before: budget.limit,
    limit_after: (after ?? BigInt(budget.limit)).toString(),
    available_before: budget.available,
    spend_minute: budget.spend_minute,
  };
  if (kind !== "limit") return [effectWords({ action: kind }, line)];
  const columns = (["limit", "daily"] as const).filter((column) => column in changes);
  const sentences = columns.map((column) =>
    column === "daily" && changes.daily === null
      ? "Takes the daily limit away; the lifetime limit stays."
      : effectWords({ action: "set", column, text: "" }, line),
  );
  if (changes.windows !== undefined)
    sentences.push(
      changes.windows === null
        ? "Takes its windows away; the other limits stay."
        : `Each ${Object.keys(changes.windows).join(", ")} may spend up to the limit of its window. What is used of a window stays used; one that is new counts from now on.`,
    );
  return sentences;
}

/** What the node asks once more about, in words; empty for nothing. */
interface Large {
  /** Limits that become more than a hundred times as large. */
  grow: string[];
  /** Limits that go. */
  gone: string[];
}

function largeOf(budget: Budget, changes: Changes | string): Large {
  if (typeof changes === "string") return { grow: [], gone: [] };
  const { unit, config } = budget;
  const [before, after] = [windowForm(config), windowForm({ windows: changes.windows ?? undefined })];
  const limits: [string, string | null, string | null | undefined][] = [
    ["limit", plainAmount(BigInt(budget.limit), unit), changes.limit],
    ["daily limit", budget.daily && plainAmount(BigInt(budget.daily), unit), changes.daily],
    ...PERIODS.map((period): [string, string, string] => [
      `limit of a ${period}`,
      before[period].limit,
      after[period].limit,
    ]),
  ];
  const grow = limits.flatMap(([name, was, text]) => {
    const [old, now] = [was ? parseAmount(was, unit) : null, text ? parseAmount(text, unit) : null];
    if (old === null || now === null || !isLarge(old, now)) return [];
    return [`the ${name} from ${moneyText(old, unit)} to ${moneyText(now, unit)}`];
  });
  const was = Object.fromEntries(Object.keys(changes).map((field) => [field, config[field]]));
  return { grow, gone: periodsGone(was, changes as Record<string, unknown>) };
}

/** What somebody has to mean. */
function meantWords({ grow, gone }: Large): string {
  const words = grow.length > 0 ? [`more than 100 times as much, ${grow.join(", ")}`] : [];
  if (gone.length > 0) words.push(`no limit per ${gone.join(", per ")} any more`);
  return words.join("; ");
}

export function ChangeDialog({ kind, budget, etag, close, done }: Props) {
  const [limit, setLimit] = useState(plainAmount(BigInt(budget.limit), budget.unit));
  const [daily, setDaily] = useState(
    budget.daily === null ? "" : plainAmount(BigInt(budget.daily), budget.unit),
  );
  const [why, setWhy] = useState("");
  const [sending, setSending] = useState(false);
  const [failed, setFailed] = useState<Problem | null>(null);
  const [firstWindows] = useState(() => windowForm(budget.config));
  const [windows, setWindows] = useState(firstWindows);
  const dayIsWindow = firstWindows.day.limit !== "";
  const changes =
    kind === "limit"
      ? limitChanges(
          // The day is either the daily limit or among the windows.
          dayIsWindow ? { ...budget, daily: null } : budget,
          limit,
          dayIsWindow ? "" : daily,
          windowChange(firstWindows, windows, budget.unit),
        )
      : ({ status: kind === "pause" ? "paused" : "active" } as Changes);
  const largest = largeOf(budget, changes);
  const large = meantWords(largest);
  const [meant, setMeant] = useState("");
  // Another amount is asked for anew.
  const isMeant = meant === large;
  const wrong =
    typeof changes === "string"
      ? changes
      : large !== "" && !isMeant
        ? `It ${largest.grow.length > 0 ? "is more than 100 times as much" : "takes a limit away"}: confirm it.`
        : why.trim().length < 3
          ? "Say why; it goes to the audit log."
          : null;
  const send = () => {
    if (typeof changes === "string") return;
    setSending(true);
    api.patch(budget.id, etag, changes, why.trim(), large !== "").then(done, (error: unknown) => {
      setFailed(problemOf(error));
      setSending(false);
    });
  };
  return (
    <Dialog title={`${TITLE[kind]}: ${budget.name}`} close={close}>
      <form
        className="dialog-body"
        onSubmit={(event) => {
          event.preventDefault();
          if (wrong === null && !sending) send();
        }}
      >
        {kind === "limit" && (
          <div className="field-row">
            <label className="field">
              Limit, {budget.unit}
              <input value={limit} inputMode="decimal" onChange={(event) => setLimit(event.target.value)} />
            </label>
            {!dayIsWindow && (
              <label className="field">
                Daily limit, {budget.unit}
                <input
                  value={daily}
                  inputMode="decimal"
                  placeholder="none"
                  onChange={(event) => setDaily(event.target.value)}
                />
              </label>
            )}
          </div>
        )}
        {kind === "limit" && (
          <WindowFields unit={budget.unit} form={windows} first={firstWindows} change={setWindows} />
        )}
        {typeof changes !== "string" &&
          effects(kind, budget, changes).map((sentence) => (
            <p key={sentence} className="effect">
              {sentence}
            </p>
          ))}
        <p className="quiet">{pacingWords(kind === "limit" ? "set" : kind)}</p>
        <p className="quiet">
          {moneyText(BigInt(budget.spent), budget.unit)} is spent,{" "}
          {moneyText(BigInt(budget.held), budget.unit)} is in holds, which stay valid.
        </p>
        <label className="field">
          Reason, for the audit log
          <input value={why} maxLength={500} autoFocus onChange={(event) => setWhy(event.target.value)} />
        </label>
        {large !== "" && (
          <label className="field-check">
            <input
              type="checkbox"
              checked={isMeant}
              onChange={(event) => setMeant(event.target.checked ? large : "")}
            />{" "}
            I mean it: {large}
          </label>
        )}
        {failed !== null && <ProblemNote problem={failed} />}
        <footer className="dialog-foot">
          <span className="quiet" role="status">
            {wrong}
          </span>
          <button type="button" className="button" onClick={close}>
            Cancel
          </button>
          <button type="submit" className="button button-main" disabled={wrong !== null || sending}>
            {sending ? "Sealing…" : TITLE[kind]}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}
