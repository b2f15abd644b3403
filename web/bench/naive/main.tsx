// What one would write first: all rows in React state, all rows in the document, frames as JSON; with `?table=tanstack` what one would
// write next: TanStack Table sorts them, TanStack Virtual keeps the visible ones in the document. The dashboard is measured beside both,
// in the same run, on the same frames.
import { useEffect, useState } from "react";
import { createRoot } from "react-dom/client";
import { flushSync } from "react-dom";
import { writeAcknowledge } from "../../src/live/codec";
import { RowView, type Row, type State } from "./row";
import { TanStackTable } from "./tanstack";

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

function snapshotRows({ fields }: Message): Row[] {
  return fields.states.map((state, i) => ({ ...state, ...fields.budgets[i]!, name: fields.names[i]! }));
}

function withDeltas(rows: readonly Row[], states: readonly State[]): Row[] {
  const next = rows.slice();
  for (const state of states) next[state.row] = { ...next[state.row]!, ...state };
  return next;
}

function NaiveTable({ rows }: { rows: readonly Row[] }) {
  return (
    <div className="grid" role="grid" aria-rowcount={rows.length}>
      {rows.map((row) => (
        <RowView key={row.id} row={row} />
      ))}
    </div>
  );
}

function App({ address, table: Table }: { address: string; table: typeof NaiveTable }) {
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
  return <Table rows={rows} />;
}

const asked = new URLSearchParams(location.search);
createRoot(document.getElementById("root")!).render(
  <App
    address={asked.get("live") ?? ""}
    table={asked.get("table") === "tanstack" ? TanStackTable : NaiveTable}
  />,
);
