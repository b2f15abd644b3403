import type { Table } from "../live/table";
import { type Column, columnOf } from "./columns";
import { type Words, radixSort, writeWords } from "./radix";

export interface SortKey {
  column: string;
  descending: boolean;
}

/** What rows are compared by in one column. */
class KeyWords implements Words {
  readonly high: Uint32Array;
  readonly low: Uint32Array;
  private readonly column: Column;
  private readonly descending: boolean;
  private readonly values: Float64Array;

  constructor(
    private readonly table: Table,
    { column, descending }: SortKey,
  ) {
    this.column = columnOf(column)!;
    this.descending = descending;
    this.values = this.column.doubles?.(table) ?? new Float64Array(table.rows);
    this.high = new Uint32Array(table.rows);
    this.low = new Uint32Array(table.rows);
  }

  read(rows: Uint32Array): void {
    const { column, table, values } = this;
    if (column.doubles === undefined)
      for (let i = 0; i < rows.length; i += 1) values[rows[i]!] = column.value(table, rows[i]!);
    writeWords(this, values, rows, this.descending);
  }
}

/** All rows of a table: by the first key, equals by the next, by row last. A row that changed is moved, the others stay as they are. */
export class Sorted {
  rows: Uint32Array;
  private readonly keys: readonly KeyWords[];
  private readonly moving: Uint8Array;

  constructor(table: Table, keys: readonly SortKey[]) {
    const rows = new Uint32Array(table.rows);
    for (let row = 0; row < rows.length; row += 1) rows[row] = row;
    this.keys = keys.map((key) => new KeyWords(table, key));
    this.moving = new Uint8Array(table.rows);
    this.rows = this.sort(rows);
  }

  /** Finds the places of rows that changed, given in the order of rows. */
  update(changed: Uint32Array): void {
    if (this.keys.length === 0) return;
    const moved = this.sort(changed);
    this.mark(moved, 1);
    this.rows = this.merge(moved);
    this.mark(moved, 0);
  }

  // Here and below loops by index: they run once in two seconds, so the browser has not made much of them, and iterators cost it most.
  private mark(moved: Uint32Array, moving: 0 | 1): void {
    for (let i = 0; i < moved.length; i += 1) this.moving[moved[i]!] = moving;
  }

  /** From the last key to the first: each pass is stable. */
  private sort(rows: Uint32Array): Uint32Array {
    let order: Uint32Array = rows.slice();
    let spare: Uint32Array = new Uint32Array(rows.length);
    for (const key of [...this.keys].reverse()) {
      key.read(rows);
      for (const words of [key.low, key.high]) {
        const sorted = radixSort(order, words, spare);
        [order, spare] = [sorted, sorted === order ? spare : order];
      }
    }
    return order;
  }

  private merge(moved: Uint32Array): Uint32Array {
    const { rows, moving } = this;
    const { high } = this.keys[0]!;
    const merged = new Uint32Array(rows.length);
    let [count, next] = [0, 0];
    // Most rows are told apart by the first word.
    let bound = high[moved[0]!]!;
    for (let i = 0; i < rows.length; i += 1) {
      const row = rows[i]!;
      if (moving[row] === 1) continue;
      if (high[row]! >= bound) {
        while (next < moved.length && this.isBefore(moved[next]!, row)) merged[count++] = moved[next++]!;
        bound = next < moved.length ? high[moved[next]!]! : Infinity;
      }
      merged[count++] = row;
    }
    merged.set(moved.subarray(next), count);
    return merged;
  }

  private isBefore(a: number, b: number): boolean {
    for (const { high, low } of this.keys) {
      if (high[a] !== high[b]) return high[a]! < high[b]!;
      if (low[a] !== low[b]) return low[a]! < low[b]!;
    }
    return a < b;
  }
}

/** How many rows between two places would be others; null if all rows, everywhere, stand as they are. */
export function entering(
  shown: Uint32Array,
  sorted: Uint32Array,
  [first, end]: readonly [number, number],
): number | null {
  let stands = shown.length === sorted.length;
  for (let i = 0; stands && i < shown.length; i += 1) stands = shown[i] === sorted[i];
  if (stands) return null;
  const there = new Set(shown.subarray(first, end));
  return sorted.subarray(first, end).reduce((count, row) => count + Number(!there.has(row)), 0);
}

/** A click on a header: none, largest first for figures, the other way, none. With shift it joins the keys that are there. */
export function clicked(keys: readonly SortKey[], column: string, figures: boolean, add: boolean): SortKey[] {
  const old = keys.find((key) => key.column === column);
  const next =
    old === undefined
      ? { column, descending: figures }
      : old.descending === figures
        ? { column, descending: !figures }
        : null;
  const others = add ? keys.filter((key) => key.column !== column) : [];
  if (next === null) return others;
  const at = add && old !== undefined ? keys.indexOf(old) : others.length;
  return [...others.slice(0, at), next, ...others.slice(at)];
}
