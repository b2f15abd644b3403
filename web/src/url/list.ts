// The list that a campaign was opened from, as it stood then: next and previous do not jump because figures changed meanwhile.
import { Order } from "../grid/order";
import type { Table } from "../live/table";
import { parseView } from "./view";

export interface List {
  /** The view, as in an address. */
  text: string;
  ids: readonly string[];
  /** Rows, which `ids` is indexed by. */
  order: Uint32Array;
}

let list: List | null = null;
let seen: string | null = null;

export function keepList(kept: List, id: string): void {
  list = kept;
  seen = id;
}

/** The list of this text. After a reload it is made anew, of the figures of then; null until there are some. */
export function listOf(text: string, table: Table | null): List | null {
  if (list?.text === text) return list;
  if (table === null) return null;
  list = { text, ids: table.ids, order: new Order(table, parseView(text), null).rows().slice() };
  return list;
}

/** The campaign that was looked at last, of a list with this text. */
export const seenOf = (text: string): string | null => (list?.text === text ? seen : null);

export const see = (id: string): void => {
  seen = id;
};

export const placeIn = ({ ids, order }: List, id: string): number =>
  order.findIndex((row) => ids[row] === id);
