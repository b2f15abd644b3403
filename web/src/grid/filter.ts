// Which rows are shown: the search and the terms of docs/api.md section 1, over columns.
import type { Table } from "../live/table";
import { columnOf, rangeValue } from "./columns";

export type Term =
  | { column: string; is: "set"; codes: readonly string[] }
  | { column: string; is: "range"; least: number | null; most: number | null }
  | { column: string; is: "text"; text: string };

type Test = (row: number) => boolean;

/** All names and ids in one string, so that a search is one run of indexOf. */
export class SearchText {
  private readonly joined: string;
  private readonly ends: Uint32Array;

  constructor(table: Table) {
    const parts: string[] = [];
    this.ends = new Uint32Array(table.rows);
    let length = 0;
    for (let row = 0; row < table.rows; row += 1) {
      const part = `${table.names[row]!}\t${table.ids[row]!}\n`.toLowerCase();
      parts.push(part);
      length += part.length;
      this.ends[row] = length;
    }
    this.joined = parts.join("");
  }

  /** Marks rows that contain the text. */
  find(query: string): Uint8Array {
    const found = new Uint8Array(this.ends.length);
    // Its own separators would find matches across rows.
    const wanted = query.toLowerCase().replace(/[\t\n]/g, " ");
    let row = 0;
    for (
      let at = this.joined.indexOf(wanted);
      at !== -1;
      at = this.joined.indexOf(wanted, this.ends[row - 1])
    ) {
      while (this.ends[row]! <= at) row += 1;
      found[row] = 1;
      row += 1;
      if (row === this.ends.length) break;
    }
    return found;
  }
}

const texts = new WeakMap<Table, SearchText>();

function searchText(table: Table): SearchText {
  const known = texts.get(table) ?? new SearchText(table);
  texts.set(table, known);
  return known;
}

function setTest(table: Table, term: Extract<Term, { is: "set" }>): Test {
  const column = columnOf(term.column)!;
  const wanted = new Set(term.codes);
  if (term.column === "flags")
    return (row) =>
      column.text!(table, row)
        .split(",")
        .some((flag) => wanted.has(flag));
  return (row) => wanted.has(column.text!(table, row));
}

function rangeTest(table: Table, term: Extract<Term, { is: "range" }>): Test {
  const column = columnOf(term.column)!;
  const least = term.least ?? -Infinity;
  const most = term.most ?? Infinity;
  return (row) => {
    const value = rangeValue(column, table, row);
    return value >= least && value <= most;
  };
}

function textTest(table: Table, term: Extract<Term, { is: "text" }>): Test {
  const column = columnOf(term.column)!;
  const wanted = term.text.toLowerCase();
  return (row) => column.text!(table, row).toLowerCase().includes(wanted);
}

function testOf(table: Table, term: Term): Test {
  switch (term.is) {
    case "set":
      return setTest(table, term);
    case "range":
      return rangeTest(table, term);
    case "text":
      return textTest(table, term);
  }
}

/** Rows that pass, in the order of rows. */
export function filterRows(table: Table, query: string, terms: readonly Term[]): Uint32Array {
  const found = query.trim() === "" ? null : searchText(table).find(query.trim());
  const tests = terms.map((term) => testOf(table, term));
  const rows = new Uint32Array(table.rows);
  let count = 0;
  for (let row = 0; row < table.rows; row += 1) {
    if ((found === null || found[row] === 1) && tests.every((test) => test(row))) rows[count++] = row;
  }
  return rows.slice(0, count);
}
