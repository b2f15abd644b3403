import { useMemo, useState } from "react";
import { api, newKey, problemOf } from "../api/client";
import type { Budget, Problem } from "../api/types";
import { PACINGS, words } from "../live/codes";
import { exactText, parseAmount } from "../money/money";
import { Dialog, ProblemNote } from "../ui/parts";
import { browserZone } from "../ui/time";
import type { Table } from "../live/table";
import { HANDLE_WORDS, isHandle } from "../url/handle";
import { type BudgetForm, EMPTY_FORM, PLAN_WORDS, budgetOf, freeId, parentsFor } from "./budget";

const zones = (): string[] => [...new Set(["UTC", browserZone(), ...Intl.supportedValuesOf("timeZone")])];

interface Props {
  /** All budgets there are; null while none is known. */
  table: Table | null;
  close: () => void;
  done: (budget: Budget) => void;
}

const NONE: Pick<Table, "ids" | "names" | "handles" | "units"> = {
  ids: [],
  names: [],
  handles: [],
  units: [],
};

export function CreateDialog({ table, close, done }: Props) {
  // Of the moment that the dialog opened: an id does not change while somebody types.
  const [known] = useState(table ?? NONE);
  const [proposed] = useState(() => freeId(known.ids));
  const [form, setForm] = useState({ ...EMPTY_FORM, id: proposed ?? "" });
  const parents = useMemo(
    () => parentsFor(known, form.parent, form.unit.trim()),
    [known, form.parent, form.unit],
  );
  const nameOf = (id: string): string | undefined => known.names[known.ids.indexOf(id.trim())];
  const handle = form.handle.trim();
  const handleRow = handle === "" ? -1 : known.handles.indexOf(handle);
  const [taken, parent] = [nameOf(form.id), nameOf(form.parent)];
  const [sending, setSending] = useState(false);
  const [failed, setFailed] = useState<Problem | null>(null);
  const names = useMemo(zones, []);
  const budget = handleRow >= 0 ? "Another budget has this handle." : budgetOf(form);
  // The same form sent twice is one budget.
  const key = useMemo(newKey, [JSON.stringify(budget)]);
  const put = (field: keyof BudgetForm) => (event: { target: { value: string } }) =>
    setForm({ ...form, [field]: event.target.value });
  const send = async () => {
    if (typeof budget === "string") return;
    setSending(true);
    try {
      done((await api.create(budget, form.why.trim(), key)).budget);
    } catch (error) {
      setFailed(problemOf(error));
      setSending(false);
    }
  };
  return (
    <Dialog title="New budget" close={close}>
      <form
        className="dialog-body"
        onSubmit={(event) => {
          event.preventDefault();
          if (typeof budget !== "string" && !sending) void send();
        }}
      >
        <p className="quiet">
          A budget for asks. One that bids is a campaign, and stands in the budgets file with its price and
          creatives.
        </p>
        <div className="field-grid">
          <label className="field field-wide">
            Name
            <input value={form.name} maxLength={200} autoFocus onChange={put("name")} />
          </label>
          <div className="field-hinted field-wide">
            <label className="field">
              Handle
              <input
                aria-describedby="hint-handle"
                aria-invalid={handle !== "" && !isHandle(handle)}
                value={form.handle}
                maxLength={128}
                placeholder="none, or as team-42/gpt-5"
                spellCheck={false}
                autoCapitalize="off"
                onChange={put("handle")}
              />
            </label>
            <span className="field-hint" id="hint-handle">
              {handleRow >= 0
                ? `The budget ${known.ids[handleRow]} has this handle already.`
                : `A unique name for programs, beside the id: ${HANDLE_WORDS}.`}
            </span>
          </div>
          <div className="field-hinted">
            <label className="field">
              Id
              <input aria-describedby="hint-id" value={form.id} inputMode="numeric" onChange={put("id")} />
            </label>
            <span className="field-hint" id="hint-id">
              {taken !== undefined
                ? `There is a budget ${form.id.trim()} already: “${taken}”.`
                : form.id === proposed
                  ? "A free one; change it if you need another."
                  : "Used once and for ever."}
            </span>
          </div>
          <label className="field">
            Unit
            <input value={form.unit} maxLength={5} list="units" onChange={put("unit")} />
          </label>
          <label className="field">
            Limit, in its life
            <input value={form.limit} inputMode="decimal" onChange={put("limit")} />
          </label>
          <label className="field">
            Daily limit
            <input value={form.daily} inputMode="decimal" placeholder="none" onChange={put("daily")} />
          </label>
          <label className="field">
            Time zone of its days
            <select value={form.zone} onChange={put("zone")}>
              {names.map((zone) => (
                <option key={zone}>{zone}</option>
              ))}
            </select>
          </label>
          <div className="field-hinted">
            <label className="field">
              Plan
              <select aria-describedby="hint-plan" value={form.pacing} onChange={put("pacing")}>
                {PACINGS.map((pacing) => (
                  <option key={pacing} value={pacing}>
                    {words(pacing)}
                  </option>
                ))}
              </select>
            </label>
            <span className="field-hint" id="hint-plan">
              {PLAN_WORDS[form.pacing as keyof typeof PLAN_WORDS]}
            </span>
          </div>
          <div className="field-hinted field-wide">
            <label className="field">
              Part of
              <input
                aria-describedby="hint-parent"
                value={form.parent}
                list="parents"
                inputMode="numeric"
                placeholder="none"
                onChange={put("parent")}
              />
            </label>
            <span className="field-hint" id="hint-parent">
              {parent === undefined
                ? "The id of a budget whose limit binds this one, too."
                : `“${parent}”: its limit binds this one, too.`}
            </span>
          </div>
          <label className="field">
            Flight begins, UTC
            <input type="datetime-local" value={form.start} onChange={put("start")} />
          </label>
          <label className="field">
            Flight ends, UTC
            <input type="datetime-local" value={form.end} onChange={put("end")} />
          </label>
          <label className="field field-wide">
            Reason, for the audit log
            <input value={form.why} maxLength={500} onChange={put("why")} />
          </label>
        </div>
        <datalist id="units">
          {["USD", "USDn", "EUR", "GBP", "JPY", "count"].map((unit) => (
            <option key={unit} value={unit} />
          ))}
        </datalist>
        <datalist id="parents">
          {parents.map(({ id, name }) => (
            <option key={id} value={id}>
              {name}
            </option>
          ))}
        </datalist>
        {typeof budget !== "string" && (
          <p className="effect effect-text">
            It may spend up to{" "}
            <strong>{exactText(parseAmount(budget.limit, budget.unit), budget.unit)}</strong>
            {budget.daily === undefined
              ? ""
              : `, ${exactText(parseAmount(budget.daily, budget.unit), budget.unit)} of it in a day`}
            {budget.start === undefined ? ", from now on" : ""}.
          </p>
        )}
        {failed !== null && <ProblemNote problem={failed} />}
        <footer className="dialog-foot">
          <span className="quiet">
            {typeof budget === "string"
              ? budget
              : "It can be paused, and ended by undoing this in the audit log; its id stays used."}
          </span>
          <button type="button" className="button" onClick={close}>
            Cancel
          </button>
          <button
            type="submit"
            className="button button-main"
            disabled={typeof budget === "string" || sending}
          >
            {sending ? "Sealing…" : "Create"}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}
