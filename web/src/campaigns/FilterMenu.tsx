// One filter a column, and the terms in force as chips that can be taken away.
import { useState } from "react";
import { COLUMNS, type Column, NONE, columnOf, periodOf } from "../grid/columns";
import type { Term } from "../grid/filter";
import type { Model } from "../grid/model";
import { words } from "../live/codes";
import type { Table } from "../live/table";
import { Menu } from "../ui/parts";

interface Props {
  terms: readonly Term[];
  model: Model;
  change: (terms: readonly Term[]) => void;
}

const replaced = (terms: readonly Term[], column: string, term: Term | null): readonly Term[] => [
  ...terms.filter((one) => one.column !== column),
  ...(term === null ? [] : [term]),
];

export function termWords(term: Term): string {
  const column = columnOf(term.column);
  const name = column?.title ?? term.column;
  switch (term.is) {
    case "set":
      return `${name}: ${term.codes.map((code) => (column?.codes === undefined ? code : words(code))).join(" or ")}`;
    case "text":
      return `${name} has “${term.text}”`;
    case "range":
      if (term.least === null) return `${name} ≤ ${term.most}`;
      return term.most === null ? `${name} ≥ ${term.least}` : `${name} ${term.least} to ${term.most}`;
  }
}

export function FilterChips({ terms, change }: Pick<Props, "terms" | "change">) {
  return terms.map((term) => (
    <button
      key={`${term.column}${term.is}`}
      type="button"
      className="filter-chip"
      onClick={() => change(terms.filter((one) => one !== term))}
      aria-label={`remove the filter ${termWords(term)}`}
    >
      {termWords(term)} <span aria-hidden="true">✕</span>
    </button>
  ));
}

export function FilterMenu({ terms, model, change }: Props) {
  const [key, setKey] = useState("status");
  const column = columnOf(key)!;
  const term = terms.find((one) => one.column === key) ?? null;
  const set = (next: Term | null) => change(replaced(terms, key, next));
  return (
    <Menu label="Filter" {...(terms.length > 0 ? { badge: String(terms.length) } : {})}>
      <label className="field">
        Column
        <select value={key} onChange={(event) => setKey(event.target.value)}>
          {COLUMNS.filter((one) => one.key !== "since" && one.key !== "end").map((one) => (
            <option key={one.key} value={one.key}>
              {one.title}
            </option>
          ))}
        </select>
      </label>
      <p className="quiet">{column.about}.</p>
      <Editor key={key} column={column} term={term} model={model} set={set} />
    </Menu>
  );
}

function Editor({
  column,
  term,
  model,
  set,
}: {
  column: Column;
  term: Term | null;
  model: Model;
  set: (term: Term | null) => void;
}) {
  switch (column.kind) {
    case "set":
      return <SetEditor column={column} term={term} model={model} set={set} />;
    case "text":
      return <TextEditor column={column} term={term} set={set} />;
    default:
      return <RangeEditor column={column} term={term} set={set} />;
  }
}

function SetEditor({ column, term, model, set }: Parameters<typeof Editor>[0]) {
  const chosen = new Set(term?.is === "set" ? term.codes : []);
  const { table } = model;
  const known = column.codes ?? codesIn(table, column);
  const toggle = (code: string) => {
    const codes = chosen.has(code) ? [...chosen].filter((one) => one !== code) : [...chosen, code];
    set(codes.length === 0 ? null : { column: column.key, is: "set", codes });
  };
  return (
    <div className="checks">
      {known.map((code) => (
        <label key={code}>
          <input type="checkbox" checked={chosen.has(code)} onChange={() => toggle(code)} />{" "}
          {column.codes === undefined ? code : words(code)}
        </label>
      ))}
    </div>
  );
}

/** The codes of a set that are in the table. */
function codesIn(table: Table | null, column: Column): string[] {
  const texts = { unit: table?.units, zone: table?.zones, template: table?.templates }[column.key] ?? [];
  return [...new Set(texts)].map((text) => text || NONE).sort();
}

function TextEditor({ column, term, set }: Omit<Parameters<typeof Editor>[0], "model">) {
  const text = term?.is === "text" ? term.text : "";
  return (
    <label className="field">
      has
      <input
        value={text}
        onChange={(event) =>
          set(event.target.value === "" ? null : { column: column.key, is: "text", text: event.target.value })
        }
      />
    </label>
  );
}

function RangeEditor({ column, term, set }: Omit<Parameters<typeof Editor>[0], "model">) {
  const range = term?.is === "range" ? term : { least: null, most: null };
  const number = (text: string) => (text.trim() === "" || Number.isNaN(Number(text)) ? null : Number(text));
  const update = (least: number | null, most: number | null) =>
    set(least === null && most === null ? null : { column: column.key, is: "range", least, most });
  return (
    <div className="field-pair">
      <label className="field">
        at least
        <input
          inputMode="decimal"
          defaultValue={range.least ?? ""}
          onChange={(event) => update(number(event.target.value), range.most)}
        />
      </label>
      <label className="field">
        at most
        <input
          inputMode="decimal"
          defaultValue={range.most ?? ""}
          onChange={(event) => update(range.least, number(event.target.value))}
        />
      </label>
      {(column.key === "tightest" || periodOf(column) !== null) && (
        <p className="quiet">The part that is used: 0.9 is nine tenths of the limit.</p>
      )}
      {column.kind === "amount" && (
        <p className="quiet">In whole units, as 12.50; of whichever unit a budget has.</p>
      )}
    </div>
  );
}
