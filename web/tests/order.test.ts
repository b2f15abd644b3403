import { describe, expect, it } from "vitest";
import { Order } from "../src/grid/order";
import type { SortKey } from "../src/grid/sort";
import { type Table, bitsOf } from "../src/live/table";
import { parseFilter } from "../src/url/view";
import { numbers, tableOf } from "./made";

const ROWS = 700;
const TICKS = 12;
const random = numbers(7);
const below = (most: number): number => Math.floor(random() * most);

type Changed = "spent" | "status" | "windowPlanned" | "windowSpent";
const WHAT: readonly Changed[][] = [
  ["spent", "status"],
  ["windowPlanned", "windowSpent"],
  ["windowSpent"],
  ["status"],
];

/** Figures of a row; few different ones, so that many rows are equal. */
function change(table: Table, row: number): void {
  const columns = WHAT[below(WHAT.length)]!;
  if (columns.includes("spent")) table.spent[row] = below(9) * 1e6 + below(2) - 2e6;
  if (columns.includes("windowPlanned")) table.windowPlanned[row] = random() < 0.2 ? NaN : 100;
  if (columns.includes("windowSpent")) table.windowSpent[row] = below(150);
  if (columns.includes("status")) table.status[row] = below(4);
  const { low, high } = bitsOf(columns);
  table.version[row]! += 1;
  table.changed.add(row, low, high);
  table.revision += 1;
}

function randomTable(): Table {
  const table = tableOf(
    Array.from({ length: ROWS }, (_, i) => ({
      name: `row ${i % 90}`,
      unit: ["USD", "EUR"][i % 2]!,
      zone: ["UTC", "Asia/Tokyo"][i % 3] ?? "Europe/Paris",
    })),
  );
  for (let row = 0; row < ROWS; row += 1) change(table, row);
  return table;
}

const VIEWS: { query: string; filter: string; sort: SortKey[] }[] = [
  { query: "", filter: "", sort: [] },
  { query: "", filter: "", sort: [{ column: "spent", descending: true }] },
  { query: "", filter: "status:active,paused", sort: [{ column: "pace", descending: false }] },
  {
    query: "row 1",
    filter: "spent:0..;pace:..1.2",
    sort: [
      { column: "status", descending: true },
      { column: "spent", descending: false },
      { column: "name", descending: false },
    ],
  },
];

describe("an order kept up to date", () => {
  it.each(VIEWS)("is what sorting and adding up all rows gives: %o", ({ query, filter, sort }) => {
    const table = randomTable();
    const wanted = { query, terms: parseFilter(filter), sort };
    const kept = new Order(table, wanted, null);
    for (let tick = 0; tick < TICKS; tick += 1) {
      // None, some, all.
      const changed = [0, 40, ROWS][tick % 3]!;
      for (let i = 0; i < changed; i += 1) change(table, below(ROWS));
      const fresh = new Order(table, wanted, null);
      expect(kept.rows()).toEqual(fresh.rows());
      expect(kept.counts()).toEqual(fresh.counts());
    }
  });

  it("takes over what it knows when only the search or only the sort differs", () => {
    const table = randomTable();
    let kept: Order | null = null;
    for (const { query, filter, sort } of [...VIEWS, ...VIEWS]) {
      change(table, below(ROWS));
      const wanted = { query, terms: parseFilter(filter), sort };
      for (const view of [wanted, { ...wanted, query: "row 2" }, { ...wanted, sort: [] }]) {
        kept = new Order(table, view, kept);
        const fresh = new Order(table, view, null);
        expect(kept.rows()).toEqual(fresh.rows());
        expect(kept.counts()).toEqual(fresh.counts());
      }
    }
  });

  it("stays the same array while nothing changes", () => {
    const order = new Order(randomTable(), { query: "", terms: [], sort: [] }, null);
    expect(order.rows()).toBe(order.rows());
  });
});
