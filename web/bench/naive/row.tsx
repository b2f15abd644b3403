// A row of the pages that the dashboard is measured beside, and how it looks.
import { memo } from "react";

export interface State {
  row: number;
  status: string;
  limit: number;
  spent: number;
  available: number;
  windowPlanned: number | null;
  windowSpent: number | null;
  asks: number;
}

export interface Row extends State {
  id: number;
  name: string;
  unit: string;
}

const money = (micros: number) =>
  (micros / 1e6).toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 });

export const RowView = memo(function RowView({ row }: { row: Row }) {
  const pace =
    row.windowPlanned === null || row.windowPlanned === 0 ? 0 : (row.windowSpent ?? 0) / row.windowPlanned;
  return (
    <div className="row">
      <span className="cell">{row.id}</span>
      <span className="cell name">{row.name}</span>
      <span className="cell">{row.status}</span>
      <span className="cell">
        {money(row.spent)} {row.unit}
      </span>
      <span className="cell">{money(row.limit)}</span>
      <span className="cell">{money(row.available)}</span>
      <span className="cell">
        <span className="bar">
          <span className="fill" style={{ width: `${Math.min(100, pace * 100)}%` }} />
        </span>
      </span>
      <span className="cell">{(row.asks / 100).toFixed(1)}</span>
    </div>
  );
});
