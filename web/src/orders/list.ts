// Which orders are asked for, as the address of the page says, and what is read of them at once.
import { api } from "../api/client";
import type { BoundBudget, FixOrder } from "../api/types";

export interface Ask {
  /** An id or a handle; empty: all. */
  budget: string;
  session: string;
}

export function askOf(search: string): Ask {
  const said = new URLSearchParams(search);
  return { budget: said.get("budget") ?? "", session: said.get("session") ?? "" };
}

export function searchOf(ask: Ask): string {
  const said = Object.entries(ask).filter(([, text]) => text !== "");
  return said.length === 0 ? "" : `?${new URLSearchParams(said)}`;
}

/** The node lists closed orders, too, for a day: some pages are read until there are enough that are open. */
const PAGE = 1_000;
const PAGES_MOST = 5;
const ENOUGH = 200;
export const BUDGETS_MOST = 100;

export interface Listed {
  open: FixOrder[];
  /** Open and closed ones that were looked at. */
  read: number;
  next: string | null;
  /** Those that bind what was read, the first of `bound`. */
  budgets: BoundBudget[];
  bound: number;
}

export async function listOrders(
  { budget, session }: Ask,
  after: string,
  signal: AbortSignal,
): Promise<Listed> {
  const open: FixOrder[] = [];
  const bound = new Set<string>();
  let read = 0;
  let next: string | null = after === "" ? null : after;
  for (let pages = 0; pages < PAGES_MOST && open.length < ENOUGH; pages++) {
    const query = new URLSearchParams({ max: String(PAGE) });
    if (budget !== "") query.set("budget", budget);
    if (next !== null) query.set("cursor", next);
    const page = await api.fixOrders(query.toString(), signal);
    read += page.orders.length;
    for (const order of page.orders) {
      if (session !== "" && order.session !== session) continue;
      for (const id of Object.keys(order.hold ?? {})) bound.add(id);
      if (order.state !== "closed") open.push(order);
    }
    next = page.next;
    if (next === null) break;
  }
  const ids = [...bound].slice(0, BUDGETS_MOST);
  const budgets = ids.length === 0 ? [] : (await api.budgetsOf(ids, signal)).budgets;
  return { open, read, next, budgets, bound: bound.size };
}
