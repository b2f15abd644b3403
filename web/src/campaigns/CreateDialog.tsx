import { useMemo, useState } from "react";
import { api, newKey, problemOf } from "../api/client";
import type { Budget, Problem } from "../api/types";
import { PACINGS, words } from "../live/codes";
import { exactText, parseAmount } from "../money/money";
import { Dialog, ProblemNote } from "../ui/parts";
import { browserZone } from "../ui/time";
import { type BudgetForm, EMPTY_FORM, budgetOf } from "./budget";

const zones = (): string[] => [...new Set(["UTC", browserZone(), ...Intl.supportedValuesOf("timeZone")])];

export function CreateDialog({ close, done }: { close: () => void; done: (budget: Budget) => void }) {
  const [form, setForm] = useState(EMPTY_FORM);
  const [sending, setSending] = useState(false);
  const [failed, setFailed] = useState<Problem | null>(null);
  const names = useMemo(zones, []);
  const budget = budgetOf(form);
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
        <div className="field-grid">
          <label className="field field-wide">
            Name
            <input value={form.name} maxLength={200} autoFocus onChange={put("name")} />
          </label>
          <label className="field">
            Id
            <input value={form.id} inputMode="numeric" onChange={put("id")} />
          </label>
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
          <label className="field">
            Pacing
            <select value={form.pacing} onChange={put("pacing")}>
              {PACINGS.map((pacing) => (
                <option key={pacing} value={pacing}>
                  {words(pacing)}
                </option>
              ))}
            </select>
          </label>
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
          {["USD", "EUR", "GBP", "JPY", "count"].map((unit) => (
            <option key={unit} value={unit} />
          ))}
        </datalist>
        {typeof budget !== "string" && (
          <p className="effect">
            It may spend up to{" "}
            <strong>{exactText(parseAmount(budget.limit, budget.unit), budget.unit)}</strong>
            {budget.start === undefined ? ", from now on" : ""}. It bids for nothing by itself: campaigns
            stand in the budgets file.
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
