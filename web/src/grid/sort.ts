import type { Table } from "../live/table";
import { columnOf } from "./columns";
import { radixSort, wordsOf } from "./radix";

export interface SortKey {
  column: string;
  descending: boolean;
}

/** Rows sorted by the first key, equals by the next; by row last. Keys are sorted from the last to the first: each sort is stable. */
export function sortRows(table: Table, rows: Uint32Array, keys: readonly SortKey[]): Uint32Array {
  let order: Uint32Array = rows.slice();
  let spare: Uint32Array = new Uint32Array(rows.length);
  for (const { column, descending } of [...keys].reverse()) {
    const values = valuesOf(table, rows, column);
    for (const words of wordsOf(values, descending).reverse()) {
      const sorted = radixSort(order, words, spare);
      [order, spare] = [sorted, sorted === order ? spare : order];
    }
  }
  return order;
}

/** Values by row; only of rows that are sorted. */
function valuesOf(table: Table, rows: Uint32Array, key: string): Float64Array {
  const column = columnOf(key)!;
  const values = new Float64Array(table.rows);
  for (const row of rows) values[row] = column.value(table, row);
  return values;
}

/** How many rows would stand elsewhere. */
export function moves(shown: Uint32Array, sorted: Uint32Array): number {
  let count = Math.abs(shown.length - sorted.length);
  for (let i = 0; i < Math.min(shown.length, sorted.length); i += 1) if (shown[i] !== sorted[i]) count += 1;
  return count;
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
