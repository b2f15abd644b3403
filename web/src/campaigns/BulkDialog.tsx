// Asks before many budgets change: first a dry run that tells the effect on money, then the deed, then what came of each row.
import { type ReactNode, useMemo, useState } from "react";
import { api, newKey, problemOf } from "../api/client";
import type { Bulk, BulkAnswer, BulkRow, Effect, Problem } from "../api/types";
import type { Model } from "../grid/model";
import { exactText, moneyText } from "../money/money";
import { Dialog, ProblemNote } from "../ui/parts";
import { budgets, count } from "../ui/numbers";
import { useDryRun } from "./dryRun";
import { effectWords, pacingWords } from "./effect";
import {
  type Intent,
  LIMIT_COLUMNS,
  type LimitColumn,
  TYPED_ABOVE,
  bulkOf,
  changesOf,
  missing,
  selectOf,
} from "./bulk";

interface Props {
  model: Model;
  intent: Intent;
  setIntent: (intent: Intent) => void;
  close: () => void;
  done: (answer: BulkAnswer, action: string) => void;
}

/** Nobody confirms what the node has not told. */
export const UNKNOWN = "The node has not said yet what it comes to.";
const VERB = { pause: "Pause", resume: "Resume", set: "Set", scale: "Change" } as const;

export function BulkDialog({ model, intent, setIntent, close, done }: Props) {
  // What was selected when the dialog opened: a live filter must not change what is confirmed.
  const [{ select, rows, units }] = useState(() => {
    const chosen = model.selectedRows();
    return {
      select: selectOf(model),
      rows: model.selection.count(model.order.length),
      units: [...new Set(Array.from(chosen, (row) => model.table!.units[row]!))],
    };
  });
  const [why, setWhy] = useState("");
  const [typed, setTyped] = useState("");
  const [sending, setSending] = useState(false);
  const [failed, setFailed] = useState<Problem | null>(null);
  const changes = useMemo(() => changesOf(intent, units), [intent, units]);
  const wrong = typeof changes === "string" ? changes : null;
  const [meant, setMeant] = useState("");
  // Another amount is asked for anew.
  const isMeant = meant === JSON.stringify(changes);
  const make = (dryRun: boolean): Bulk => ({
    ...bulkOf(
      intent.action,
      typeof changes === "string" ? null : changes,
      select,
      rows,
      dryRun ? "dry run" : why.trim(),
      dryRun,
    ),
    ...(isMeant && intent.action === "set" ? { confirm_large: true as const } : {}),
  });
  const large = (row: BulkRow) => row.large || (row.problem?.detail.includes("confirm_large") ?? false);
  // A key stands for one request: the same button pressed twice does it once, another amount is another deed.
  const key = useMemo(newKey, [JSON.stringify(make(false))]);
  const { answer, problem } = useDryRun(wrong === null ? JSON.stringify(make(true)) : "", (text) =>
    api.bulk(JSON.parse(text) as Bulk, ""),
  );
  const blocked = wrong ?? missing(rows, typed, why) ?? (answer === null ? UNKNOWN : null);
  const send = async () => {
    setSending(true);
    try {
      done(await api.bulk(make(false), key), VERB[intent.action]);
    } catch (error) {
      setFailed(problemOf(error));
      setSending(false);
    }
  };
  return (
    <Dialog title={`${VERB[intent.action]} ${count(rows)} ${budgets(rows)}`} close={close}>
      <form
        className="dialog-body"
        onSubmit={(event) => {
          event.preventDefault();
          if (blocked === null && !sending) void send();
        }}
      >
        {(intent.action === "set" || intent.action === "scale") && (
          <AmountFields intent={intent} setIntent={setIntent} units={units} />
        )}
        {"column" in intent && intent.column !== "limit" && intent.column !== "daily" && (
          <p className="quiet">
            {intent.action === "set"
              ? "A budget without such a window gets a fixed one; one that has it keeps its kind."
              : "Budgets without such a window keep none."}
          </p>
        )}
        {answer !== null && (
          <EffectTable answer={answer} intent={intent}>
            <p className="quiet">{pacingWords(intent.action === "scale" ? "set" : intent.action)}</p>
          </EffectTable>
        )}
        {problem !== null && <ProblemNote problem={problem} />}
        {intent.action === "set" && answer?.rows.some(large) === true && (
          <label className="field-check">
            <input
              type="checkbox"
              checked={isMeant}
              onChange={(event) => setMeant(event.target.checked ? JSON.stringify(changes) : "")}
            />{" "}
            I mean it: {count(answer.rows.filter(large).length)} become more than 100 times as large
          </label>
        )}
        <label className="field">
          Reason, for the audit log
          <input value={why} maxLength={500} autoFocus onChange={(event) => setWhy(event.target.value)} />
        </label>
        {rows > TYPED_ABOVE && (
          <label className="field">
            Type {rows} to confirm
            <input value={typed} inputMode="numeric" onChange={(event) => setTyped(event.target.value)} />
          </label>
        )}
        {failed !== null && <ProblemNote problem={failed} />}
        <footer className="dialog-foot">
          <span className="quiet">{blocked ?? "It can be undone afterwards, in the audit log too."}</span>
          <button type="button" className="button" onClick={close}>
            Cancel
          </button>
          <button type="submit" className="button button-main" disabled={blocked !== null || sending}>
            {sending ? "Sealing…" : VERB[intent.action]}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}

function AmountFields({
  intent,
  setIntent,
  units,
}: {
  intent: Extract<Intent, { column: string }>;
  setIntent: (intent: Intent) => void;
  units: string[];
}) {
  return (
    <div className="field-row">
      <label className="field">
        What
        <select
          value={intent.column}
          onChange={(event) => setIntent({ ...intent, column: event.target.value as LimitColumn })}
        >
          {LIMIT_COLUMNS.map(([column, name]) => (
            <option key={column} value={column}>
              {name}
            </option>
          ))}
        </select>
      </label>
      <label className="field">
        How
        <select
          value={intent.action}
          onChange={(event) =>
            setIntent({ ...intent, action: event.target.value === "scale" ? "scale" : "set", text: "" })
          }
        >
          <option value="set">to an amount</option>
          <option value="scale">to percent of what it is</option>
        </select>
      </label>
      <label className="field">
        {intent.action === "scale" ? "Percent" : `Amount${units.length === 1 ? `, ${units[0]}` : ""}`}
        <input
          value={intent.text}
          inputMode="decimal"
          onChange={(event) => setIntent({ ...intent, text: event.target.value })}
        />
      </label>
    </div>
  );
}

/** Up to so many units their effect is told in words; more are a table. */
export const TOLD_MOST = 2;

function EffectTable({
  answer: { changed, unchanged, refused, effect },
  intent,
  children,
}: {
  answer: BulkAnswer;
  intent: Intent;
  children: ReactNode;
}) {
  return (
    <div className="effect" role="region" tabIndex={0} aria-label="Effect on money">
      <p className="strong">
        {count(changed)} will change{unchanged > 0 && `, ${count(unchanged)} are so already`}
        {refused > 0 && `, ${count(refused)} cannot`}.
      </p>
      {effect.length <= TOLD_MOST ? (
        effect.map((line) => <p key={line.unit}>{effectWords(intent, line)}</p>)
      ) : (
        <EffectLines effect={effect} limits={"column" in intent} />
      )}
      {children}
    </div>
  );
}

export function EffectLines({ effect, limits }: { effect: Effect[]; limits: boolean }) {
  return (
    <table className="table">
      <thead>
        <tr>
          <th>Unit</th>
          <th className="end">Rows</th>
          <th className="end">{limits ? "Limits now" : "Remaining in them"}</th>
          <th className="end">{limits ? "then" : "Spent a minute"}</th>
        </tr>
      </thead>
      <tbody>
        {effect.map(({ unit, rows, ...line }) => {
          const [first, second] = limits
            ? [line.limit_before, line.limit_after]
            : [line.available_before, line.spend_minute];
          return (
            <tr key={unit}>
              <td>{unit}</td>
              <td className="end">{count(rows)}</td>
              {[first, second].map((text, i) => (
                <td key={i} className="end" title={exactText(BigInt(text), unit)}>
                  {moneyText(BigInt(text), unit)}
                </td>
              ))}
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}
