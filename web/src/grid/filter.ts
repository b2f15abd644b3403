// Which rows are shown: the search and the terms of docs/api.md section 1, over columns.
import type { Table } from "../live/table";
import { columnOf, rangeValue } from "./columns";

export type Term =
  | { column: string; is: "set"; codes: readonly string[] }
  | { column: string; is: "range"; least: number | null; most: number | null }
  | { column: string; is: "text"; text: string };

type Test = (row: number) => boolean;

/** All names, handles and ids in one string, so that a search is one run of indexOf. */
export class SearchText {
  private readonly joined: string;
  private readonly ends: Uint32Array;

  constructor(table: Table) {
    const parts: string[] = [];
    this.ends = new Uint32Array(table.rows);
    let length = 0;
    for (let row = 0; row < table.rows; row += 1) {
      const part = `${table.names[row]!}\t${table.handles[row]!}\t${table.ids[row]!}\n`.toLowerCase();
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

/** Which rows pass the search and all terms. */
export class Matches {
  /** 1 for each row that passes. */
  readonly passing: Uint8Array;
  private readonly found: Uint8Array;
  private readonly tests: readonly Test[];
  /** Nothing is asked for: every row passes. */
  private readonly all: boolean;

  constructor(table: Table, query: string, terms: readonly Term[]) {
    const wanted = query.trim();
    this.all = wanted === "" && terms.length === 0;
    this.found = wanted === "" ? new Uint8Array(table.rows).fill(1) : searchText(table).find(wanted);
    this.tests = terms.map((term) => testOf(table, term));
    this.passing = this.found.slice();
    if (this.tests.length > 0) for (let row = 0; row < table.rows; row += 1) this.judge(row);
  }

  /** Judges rows that changed anew, and says whether any of them passes now or no longer. Names do not change. */
  update(changed: Uint32Array): boolean {
    let differs = false;
    for (let i = 0; i < changed.length; i += 1) differs = this.judge(changed[i]!) || differs;
    return differs;
  }

  private judge(row: number): boolean {
    const passes = this.found[row] === 1 && this.tests.every((test) => test(row)) ? 1 : 0;
    const differs = passes !== this.passing[row];
    this.passing[row] = passes;
    return differs;
  }

  /** Those of `rows` that pass, in the order given. */
  of(rows: Uint32Array): Uint32Array {
    if (this.all) return rows;
    const { passing } = this;
    const passed = new Uint32Array(rows.length);
    let count = 0;
    for (let i = 0; i < rows.length; i += 1) if (passing[rows[i]!] === 1) passed[count++] = rows[i]!;
    return passed.slice(0, count);
  }
}
