// The view as CSV: raw base units and ISO times, in chunks so that the page stays alive.
import { PACINGS, REASONS, STATUSES, VERDICTS } from "../live/codes";
import { type Table, paceOf } from "../live/table";
import { type Column, columnOf } from "../grid/columns";
import { isoTime } from "../ui/time";

const CHUNK_ROWS = 500;

/** Cells that a spreadsheet would run as a formula are led by an apostrophe. */
export function csvCell(text: string): string {
  const safe = /^[=+@\t\r]/.test(text) || /^-\D/.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** Whole doubles below 10^21 have plain digits. */
const whole = (value: number): string => (Number.isNaN(value) ? "" : value.toString());

const CODES: Record<string, (table: Table, row: number) => string> = {
  status: (table, row) => STATUSES[table.status[row]!] ?? "",
  reason: (table, row) => REASONS[table.reason[row]!] ?? "",
  top_refusal: (table, row) => VERDICTS[table.topRefusal[row]!] ?? "",
  pacing: (table, row) => PACINGS[table.pacing[row]!] ?? "",
  since: (table, row) => isoTime(table.since[row]!),
  end: (table, row) => isoTime(table.end[row]!),
  pace: (table, row) => (Number.isNaN(paceOf(table, row)) ? "" : paceOf(table, row).toFixed(6)),
};

function valueText(column: Column, table: Table, row: number): string {
  const special = CODES[column.key];
  if (special !== undefined) return special(table, row);
  if (column.kind === "amount") return whole(column.value(table, row));
  return column.text === undefined ? String(column.value(table, row)) : csvCell(column.text(table, row));
}

const title = (column: Column): string =>
  column.kind === "amount" ? `${column.key}_base_units` : column.key;

/** Id and unit are always there: amounts mean nothing without them. A status comes with its reason. */
function csvColumns(keys: readonly string[]): Column[] {
  const wanted = new Set(["id", ...keys, "unit", ...(keys.includes("status") ? ["reason"] : [])]);
  return [...wanted].map(columnOf).filter((column) => column !== undefined);
}

export function* csvChunks(table: Table, rows: Uint32Array, keys: readonly string[]): Generator<string> {
  const columns = csvColumns(keys);
  yield `${columns.map(title).join(",")}\r\n`;
  for (let from = 0; from < rows.length; from += CHUNK_ROWS) {
    const lines = Array.from(
      rows.subarray(from, from + CHUNK_ROWS),
      (row) => `${columns.map((column) => valueText(column, table, row)).join(",")}\r\n`,
    );
    yield lines.join("");
  }
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
  const parts: string[] = [];
  let sinceMs = performance.now();
  for (const chunk of csvChunks(table, rows, keys)) {
    parts.push(chunk);
    if (performance.now() - sinceMs > BUSY_MS) {
      await letOthers();
      sinceMs = performance.now();
    }
  }
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob(parts, { type: "text/csv" }));
  link.download = `weir-${isoTime(asOfMs).replaceAll(":", "") || "campaigns"}.csv`;
  link.click();
  URL.revokeObjectURL(link.href);
}
