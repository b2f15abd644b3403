import { moneyText, shortText } from "../money/money";
import { type Model, useSummary } from "../grid/model";
import type { Total } from "../grid/totals";
import { count } from "../ui/numbers";

const FIGURES: readonly [keyof Pick<Total, "spent" | "available" | "spendMinute">, string][] = [
  ["spent", "spent"],
  ["available", "left"],
  ["spendMinute", "/min"],
];

/** Sums of what matches, each unit for itself: in short, exact in the title. */
export function Totals({ model }: { model: Model }) {
  const summary = useSummary(model);
  return (
    <section className="totals" tabIndex={0} aria-label="Totals by unit">
      {summary.totals.map((total) => (
        <dl key={total.unit}>
          <div>
            <dt className="strong">{total.unit}</dt>
            <dd className="quiet">{count(total.rows)}</dd>
          </div>
          {FIGURES.map(([key, name]) => (
            <div key={key} className="total" title={`${name}: ${moneyText(total[key], total.unit)}`}>
              <dt>{name}</dt>
              <dd>{shortText(total[key], total.unit)}</dd>
            </div>
          ))}
        </dl>
      ))}
      {summary.totals.some(({ zones }) => zones > 1) && (
        <span
          className="quiet"
          title="Budgets of several time zones: totals are of their lives, not of a day"
        >
          several zones
        </span>
      )}
    </section>
  );
}
