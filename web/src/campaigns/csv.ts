// The view as CSV: exact amounts in their unit and ISO times, in chunks so that the page stays alive.
import { PACINGS, PERIODS, REASONS, STATUSES, VERDICTS } from "../live/codes";
import { type Table, paceOf, tightestWindow, windowPart } from "../live/table";
import { type Column, columnOf, periodOf } from "../grid/columns";
import { decimalText } from "../money/money";
import { saveFile } from "../ui/save";
import { isoTime } from "../ui/time";
import { Bytes } from "./bytes";

const CHUNK_ROWS = 500;
/** More different times than these are one of each row, as since when its status stands: few come again, so all are forgotten. */
const KNOWN_MOST = 4_096;

/** Cells that a spreadsheet would run as a formula are led by an apostrophe. */
export function csvCell(text: string): string {
  if (!/[-=+@\t\r\n",]/.test(text)) return text;
  const safe = /^[=+@\t\r]/.test(text) || /^-\D/.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

type Write = (out: Bytes, row: number) => void;

const COMMA = ",".charCodeAt(0);

/** Many rows share a time, as a flight's end; the browser takes a microsecond for one. */
function times(column: Float64Array): Write {
  const known = new Map<number, string>();
  return (out, row) => {
    const ms = column[row]!;
    let text = known.get(ms);
    if (text === undefined) {
      if (known.size === KNOWN_MOST) known.clear();
      text = isoTime(ms);
      known.set(ms, text);
    }
    out.text(text);
  };
}

/** Texts of a set: few, in many rows. */
function cells(text: (table: Table, row: number) => string, table: Table): Write {
  const known = new Map<string, string>();
  return (out, row) => {
    const plain = text(table, row);
    let cell = known.get(plain);
    if (cell === undefined) known.set(plain, (cell = csvCell(plain)));
    out.text(cell);
  };
}

const words =
  (column: Uint8Array, codes: readonly string[]): Write =>
  (out, row) =>
    out.text(codes[column[row]!] ?? "");

/** The period, and the part that is used in millionths. */
const tightestWrite = (table: Table): Write => {
  return (out, row) => {
    const period = tightestWindow(table, row);
    out.text(period < 0 ? "," : `${PERIODS[period]},`);
    if (period >= 0) out.millionths(windowPart(table, period, row));
  };
};

const SPECIAL: Record<string, (table: Table) => Write> = {
  id: (table) => (out, row) => out.text(table.ids[row]!),
  status: (table) => words(table.status, STATUSES),
  reason: (table) => words(table.reason, REASONS),
  top_refusal: (table) => words(table.topRefusal, VERDICTS),
  pacing: (table) => words(table.pacing, PACINGS),
  since: (table) => times(table.since),
  end: (table) => times(table.end),
  tightest: tightestWrite,
  handle: (table) => (out, row) => out.text(csvCell(table.handles[row]!)),
  template: (table) => cells((_, row) => table.templates[row]!, table),
  pace: (table) => (out, row) => out.millionths(paceOf(table, row)),
};

/** Used, limit and kind, as columns of their own; empty without such a window. */
const windowWrite = (table: Table, period: number): Write => {
  const columns = table.windows[period];
  return (out, row) => {
    if (columns == null || ((table.windowed[row]! >> period) & 1) === 0) return out.text(",,");
    const unit = table.units[row]!;
    out.text(decimalText(columns.used[row]!, unit));
    out.character(COMMA);
    out.text(decimalText(columns.limit[row]!, unit));
    out.text(((table.buckets[row]! >> period) & 1) === 1 ? ",bucket" : ",fixed");
  };
};

/** How a column of this table is written: looked up once, not for each of 50,000 rows. */
function writeOf(column: Column, table: Table): Write {
  const special = SPECIAL[column.key];
  if (special !== undefined) return special(table);
  const period = periodOf(column);
  if (period !== null) return windowWrite(table, period);
  const { text } = column;
  if (text !== undefined)
    return column.kind === "set" ? cells(text, table) : (out, row) => out.text(csvCell(text(table, row)));
  if (column.kind === "amount") {
    const doubles = column.doubles?.(table);
    const value = (row: number) => doubles?.[row] ?? column.value(table, row);
    return (out, row) => out.text(decimalText(value(row), table.units[row]!));
  }
  return (out, row) => {
    const value = column.value(table, row);
    out.text(Number.isNaN(value) ? "" : String(value));
  };
}

function title(column: Column): string {
  const { key } = column;
  if (periodOf(column) !== null) return `${key}_used,${key}_limit,${key}_kind`;
  if (key === "tightest") return "tightest,tightest_used_part";
  return key;
}

/** Id and unit are always there: amounts mean nothing without them. A status comes with its reason. */
function csvColumns(keys: readonly string[]): Column[] {
  const wanted = new Set(["id", ...keys, "unit", ...(keys.includes("status") ? ["reason"] : [])]);
  return [...wanted].map(columnOf).filter((column) => column !== undefined);
}

export function* csvChunks(
  table: Table,
  rows: Uint32Array,
  keys: readonly string[],
): Generator<Uint8Array<ArrayBuffer>> {
  const columns = csvColumns(keys);
  const writes = columns.map((column) => writeOf(column, table));
  const out = new Bytes();
  out.text(`${columns.map(title).join(",")}\r\n`);
  for (let from = 0; from < rows.length; from += CHUNK_ROWS) {
    for (let i = from; i < Math.min(rows.length, from + CHUNK_ROWS); i += 1) {
      writes[0]!(out, rows[i]!);
      for (let j = 1; j < writes.length; j += 1) {
        out.character(COMMA);
        writes[j]!(out, rows[i]!);
      }
      out.text("\r\n");
    }
    yield out.take();
  }
  yield out.take();
}

/** A pause as short as there is: timers wait 4 ms at least. */
const letOthers = (): Promise<void> =>
  new Promise((next) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => next();
    port2.postMessage(null);
  });

/** So long it may keep the page from anything else. */
const BUSY_MS = 20;

export async function saveCsv(
  table: Table,
  rows: Uint32Array,
  keys: readonly string[],
  asOfMs: number,
): Promise<void> {
  const parts: Uint8Array<ArrayBuffer>[] = [];
  let sinceMs = performance.now();
  for (const chunk of csvChunks(table, rows, keys)) {
    parts.push(chunk);
    if (performance.now() - sinceMs > BUSY_MS) {
      await letOthers();
      sinceMs = performance.now();
    }
  }
  saveFile(
    new Blob(parts, { type: "text/csv" }),
    `weir-${isoTime(asOfMs).replaceAll(":", "") || "campaigns"}.csv`,
  );
}
