// What one would write first: all rows in React state, all rows in the document, frames as JSON. The dashboard is measured
// beside it, in the same run, on the same frames.
import { memo, useEffect, useState } from "react";
import { createRoot } from "react-dom/client";
import { flushSync } from "react-dom";
import { writeAcknowledge } from "../../src/live/codec";

interface State {
  row: number;
  status: string;
  limit: number;
  spent: number;
  available: number;
  windowPlanned: number | null;
  windowSpent: number | null;
  asks: number;
}

interface Row extends State {
  id: number;
  name: string;
  unit: string;
}

interface Message {
  message: "Snapshot" | "Delta" | "Sparks";
  fields: {
    sequence: number;
    firstRow: number;
    rowsTotal: number;
    budgets: { id: number; unit: string }[];
    states: State[];
    names: string[];
  };
}

/** Milliseconds of one message; the benchmark reads them. */
interface Sample {
  atMs: number;
  bytes: number;
  decode: number;
  render: number;
  layout: number;
}

const bench = { samples: [] as Sample[], rows: 0 };
Object.assign(globalThis, { bench });

const money = (micros: number) =>
  (micros / 1e6).toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 });

const RowView = memo(function RowView({ row }: { row: Row }) {
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

function snapshotRows({ fields }: Message): Row[] {
  return fields.states.map((state, i) => ({ ...state, ...fields.budgets[i]!, name: fields.names[i]! }));
}

function withDeltas(rows: readonly Row[], states: readonly State[]): Row[] {
  const next = rows.slice();
  for (const state of states) next[state.row] = { ...next[state.row]!, ...state };
  return next;
}

function App({ address }: { address: string }) {
  const [rows, setRows] = useState<readonly Row[]>([]);
  useEffect(() => {
    const socket = new WebSocket(address, ["weir.live.2"]);
    let known: readonly Row[] = [];
    let building: Row[] = [];
    const show = (next: readonly Row[]) => {
      known = next;
      flushSync(() => setRows(next));
      bench.rows = next.length;
    };
    socket.onmessage = ({ data }: MessageEvent<string>) => {
      const begun = performance.now();
      const message = JSON.parse(data) as Message;
      if (message.message === "Snapshot") {
        building =
          message.fields.firstRow === 0 ? snapshotRows(message) : [...building, ...snapshotRows(message)];
        if (building.length === message.fields.rowsTotal) show(building);
      } else if (message.message === "Delta") {
        const next = withDeltas(known, message.fields.states);
        const decoded = performance.now();
        show(next);
        const rendered = performance.now();
        void document.body.offsetHeight;
        bench.samples.push({
          atMs: begun,
          bytes: data.length,
          decode: decoded - begun,
          render: rendered - decoded,
          layout: performance.now() - rendered,
        });
      }
      socket.send(writeAcknowledge(message.fields.sequence));
    };
    return () => socket.close();
  }, [address]);
  return (
    <div className="grid" role="grid" aria-rowcount={rows.length}>
      {rows.map((row) => (
        <RowView key={row.id} row={row} />
      ))}
    </div>
  );
}

const live = new URLSearchParams(location.search).get("live") ?? "";
createRoot(document.getElementById("root")!).render(<App address={live} />);
