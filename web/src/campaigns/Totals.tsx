import { moneyText, shortText } from "../money/money";
import { type Model, useSummary } from "../grid/model";
import type { Total } from "../grid/totals";
import { LiveText } from "../ui/LiveText";
import { count } from "../ui/numbers";

const FIGURES: readonly [keyof Pick<Total, "spent" | "available" | "spendMinute">, string][] = [
  ["spent", "spent"],
  ["available", "left"],
  ["spendMinute", "/min"],
];

/** Sums of what matches, each unit for itself: in short, exact in the title. */
export function Totals({ model }: { model: Model }) {
  const { units, manyZones } = useSummary(model);
  const of = (unit: string) => model.counts.totals.find((total) => total.unit === unit);
  return (
    <section className="totals" tabIndex={0} aria-label="Totals by unit">
      {units.map((unit) => (
        <dl key={unit}>
          <div>
            <dt className="strong">{unit}</dt>
            <dd className="quiet">
              <LiveText on={model.onDraw} text={() => count(of(unit)?.rows ?? 0)} />
            </dd>
          </div>
          {FIGURES.map(([key, name]) => (
            <div key={key} className="total">
              <dt>{name}</dt>
              <dd>
                <LiveText
                  on={model.onDraw}
                  text={() => shortText(of(unit)?.[key] ?? 0n, unit)}
                  title={() => `${name}: ${moneyText(of(unit)?.[key] ?? 0n, unit)}`}
                />
              </dd>
            </div>
          ))}
        </dl>
      ))}
      {manyZones && (
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
