// A view is a link: search, filter, sort and columns stand in the address, in the grammar of docs/api.md section 1.
import { COLUMNS, columnOf } from "../grid/columns";
import type { Term } from "../grid/filter";
import type { SortKey } from "../grid/sort";

export type Order = "hold" | "live" | "freeze";
export type Density = "compact" | "roomy";
export type Clock = "utc" | "campaign" | "browser";

export interface ShownColumn {
  key: string;
  width: number;
  pinned: boolean;
}

export interface View {
  query: string;
  terms: readonly Term[];
  sort: readonly SortKey[];
  columns: readonly ShownColumn[];
  order: Order;
  density: Density;
  clock: Clock;
}

export const DEFAULT_COLUMNS: readonly ShownColumn[] = COLUMNS.filter((column) => column.shown).map(
  ({ key, width }) => ({ key, width, pinned: key === "name" }),
);

export const DEFAULT_VIEW: View = {
  query: "",
  terms: [],
  sort: [{ column: "spend", descending: true }],
  columns: DEFAULT_COLUMNS,
  order: "hold",
  density: "compact",
  clock: "campaign",
};

/** Escapes what the grammar uses. encodeURIComponent leaves the tilde alone. */
const escape = (text: string): string => encodeURIComponent(text).replaceAll("~", "%7E");

function unescape(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    // A hand-made link with a lone %: take it as it stands.
    return text;
  }
}

export function termText(term: Term): string {
  switch (term.is) {
    case "set":
      return `${term.column}:${term.codes.map(escape).join(",")}`;
    case "range":
      return `${term.column}:${term.least ?? ""}..${term.most ?? ""}`;
    case "text":
      return `${term.column}:~${escape(term.text)}`;
  }
}

export const filterText = (terms: readonly Term[]): string => terms.map(termText).join(";");
export const sortText = (keys: readonly SortKey[]): string =>
  keys.map((key) => (key.descending ? "-" : "") + key.column).join(",");

function parseRange(column: string, body: string): Term | null {
  const match = /^(-?\d+(?:\.\d+)?)?\.\.(-?\d+(?:\.\d+)?)?$/.exec(body);
  if (match === null || (match[1] === undefined && match[2] === undefined)) return null;
  const number = (text: string | undefined) => (text === undefined ? null : Number(text));
  return { column, is: "range", least: number(match[1]), most: number(match[2]) };
}

/** A term, or null where it is none: a link from another release must still open. */
export function parseTerm(text: string): Term | null {
  const colon = text.indexOf(":");
  const column = columnOf(text.slice(0, Math.max(0, colon)));
  const body = text.slice(colon + 1);
  if (column === undefined || body === "") return null;
  if (body.startsWith("~"))
    return column.text !== undefined && body !== "~"
      ? { column: column.key, is: "text", text: unescape(body.slice(1)) }
      : null;
  if (column.kind === "range" || column.kind === "amount") return parseRange(column.key, body);
  return column.kind === "set"
    ? { column: column.key, is: "set", codes: body.split(",").map(unescape) }
    : null;
}

const parts = (text: string | null, separator: string): string[] =>
  (text ?? "").split(separator).filter((part) => part !== "");

export const parseFilter = (text: string | null): Term[] =>
  parts(text, ";")
    .map(parseTerm)
    .filter((term) => term !== null);

export function parseSort(text: string | null): SortKey[] {
  const keys = parts(text, ",").map((part) => ({
    column: part.replace(/^-/, ""),
    descending: part.startsWith("-"),
  }));
  return keys.filter(
    (key, i) =>
      columnOf(key.column) !== undefined && keys.findIndex((other) => other.column === key.column) === i,
  );
}

/** `name*250` is pinned, `pace168` has a width of its own. */
const columnText = (shown: ShownColumn): string =>
  `${shown.key}${shown.pinned ? "*" : ""}${shown.width === columnOf(shown.key)!.width ? "" : shown.width}`;
export const columnsText = (columns: readonly ShownColumn[]): string => columns.map(columnText).join(",");

const WIDTH_LEAST = 48;
const WIDTH_MOST = 800;
export const boundedWidth = (width: number): number =>
  Math.round(Math.min(WIDTH_MOST, Math.max(WIDTH_LEAST, width)));

function parseColumn(text: string): ShownColumn | null {
  const match = /^([a-z_]+)(\*?)(\d{0,3})$/.exec(text);
  const column = match === null ? undefined : columnOf(match[1]!);
  if (match === null || column === undefined) return null;
  const width = match[3] === "" ? column.width : boundedWidth(Number(match[3]));
  return { key: column.key, width, pinned: match[2] === "*" && column.canvas !== true };
}

export function parseColumns(text: string | null): readonly ShownColumn[] {
  const found = parts(text, ",")
    .map(parseColumn)
    .filter((column) => column !== null);
  const once = found.filter((column, i) => found.findIndex((other) => other.key === column.key) === i);
  return once.length === 0 ? DEFAULT_COLUMNS : once;
}

const oneOf = <T extends string>(text: string | null, among: readonly T[], otherwise: T): T =>
  among.find((word) => word === text) ?? otherwise;

export function parseView(search: string): View {
  const from = new URLSearchParams(search);
  return {
    query: from.get("q") ?? "",
    terms: parseFilter(from.get("f")),
    sort: from.has("sort") ? parseSort(from.get("sort")) : DEFAULT_VIEW.sort,
    columns: parseColumns(from.get("cols")),
    order: oneOf(from.get("order"), ["hold", "live", "freeze"], DEFAULT_VIEW.order),
    density: oneOf(from.get("rows"), ["compact", "roomy"], DEFAULT_VIEW.density),
    clock: oneOf(from.get("clock"), ["utc", "campaign", "browser"], DEFAULT_VIEW.clock),
  };
}

/** Views do not change, and each click asks several times. */
const texts = new WeakMap<View, string>();

/** Only what differs from the default: a plain address stays plain. */
export function viewText(view: View): string {
  const known = texts.get(view) ?? textOf(view);
  texts.set(view, known);
  return known;
}

function textOf(view: View): string {
  const to = new URLSearchParams();
  const put = (name: string, text: string, plain: string) => text !== plain && to.set(name, text);
  put("q", view.query, "");
  put("f", filterText(view.terms), "");
  put("sort", sortText(view.sort), sortText(DEFAULT_VIEW.sort));
  put("cols", columnsText(view.columns), columnsText(DEFAULT_COLUMNS));
  put("order", view.order, DEFAULT_VIEW.order);
  put("rows", view.density, DEFAULT_VIEW.density);
  put("clock", view.clock, DEFAULT_VIEW.clock);
  return to.toString();
}
