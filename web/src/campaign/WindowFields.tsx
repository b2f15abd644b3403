// A limit and a kind for each window of a budget.
import { type WindowForm, periodsOf } from "./windows";

interface Props {
  unit: string;
  form: WindowForm;
  /** The form that decides whether the day is among the windows. */
  first: WindowForm;
  change: (form: WindowForm) => void;
}

export function WindowFields({ unit, form, first, change }: Props) {
  return (
    <fieldset className="window-fields">
      <legend>Windows, {unit || "in its unit"}</legend>
      {periodsOf(first).map((period) => {
        const field = form[period];
        const put = (changes: Partial<typeof field>) =>
          change({ ...form, [period]: { ...field, ...changes } });
        return (
          <div className="window-field" key={period}>
            <label className="field">
              In each {period}
              <input
                value={field.limit}
                inputMode="decimal"
                placeholder="none"
                onChange={(event) => put({ limit: event.target.value })}
              />
            </label>
            <label className="field">
              It comes back
              <select
                aria-label={`How the limit of a ${period} comes back`}
                value={field.bucket ? "bucket" : "fixed"}
                disabled={field.limit.trim() === ""}
                onChange={(event) => put({ bucket: event.target.value === "bucket" })}
              >
                <option value="fixed">at its end</option>
                <option value="bucket">all the time</option>
              </select>
            </label>
          </div>
        );
      })}
    </fieldset>
  );
}
