import { describe, expect, it } from "vitest";
import { Matches } from "../src/grid/filter";
import { Tally } from "../src/grid/totals";
import { Selection } from "../src/grid/selection";
import { parseFilter } from "../src/url/view";
import type { Table } from "../src/live/table";
import { allRows, tableOf } from "./made";

const table = tableOf([
  { name: "Spring Sale", status: 0, spent: 12_500_000, unit: "USD", zone: "UTC", limit: 20_000_000 },
  {
    name: "spring clearance",
    status: 1,
    spent: 99,
    unit: "count",
    planned: 100,
    windowSpent: 90,
    limit: 100,
    zone: "Asia/Tokyo",
  },
  { name: "autumn", status: 2, spent: 12_500_001, unit: "USD", zone: "Europe/Paris", flags: 5, limit: 1 },
]);
const passing = (of: Table, query: string, filter = "") => [
  ...new Matches(of, query, parseFilter(filter)).of(allRows(of)),
];
const found = (query: string, filter = "") => passing(table, query, filter);

describe("search", () => {
  it("in names and ids, case folded", () => {
    expect(found("SPRING")).toEqual([0, 1]);
    expect(found("102")).toEqual([2]);
    expect(found("10")).toEqual([0, 1, 2]);
    expect(found("  autumn ")).toEqual([2]);
    expect(found("winter")).toEqual([]);
    expect(found("")).toEqual([0, 1, 2]);
  });
  it("in handles", () => {
    const named = tableOf([{ name: "Spring", handle: "team-42/GPT-5" }, { name: "made" }]);
    expect(passing(named, "42/gpt")).toEqual([0]);
  });
  it("does not match across rows", () => expect(found("100\nspring")).toEqual([]));
  it("nothing in nothing", () => expect(passing(tableOf([]), "x")).toEqual([]));
});

describe("terms", () => {
  it("templates and windows", () => {
    const made = tableOf([
      { template: "{team}/{model}", windows: { minute: [9, 10], week: [1, 10] } },
      { template: "other/{x}", windows: { minute: [1, 10] } },
      {},
    ]);
    expect(passing(made, "", `template:${encodeURIComponent("{team}/{model}")}`)).toEqual([0]);
    expect(passing(made, "", "template:none")).toEqual([2]);
    expect(passing(made, "", "tightest:0.9..")).toEqual([0]);
    expect(passing(made, "", "minute:..0.5")).toEqual([1]);
  });
  it("sets", () => {
    expect(found("", "status:active,paused")).toEqual([0, 2]);
    expect(found("", "zone:Asia/Tokyo")).toEqual([1]);
    expect(found("", "flags:debt")).toEqual([2]);
  });
  it("amounts in units, a count in items, both ends included", () => {
    expect(found("", "spent:12.5..12.5")).toEqual([0]);
    expect(found("", "spent:99..")).toEqual([1]);
    expect(found("", "pace:..0.95")).toEqual([1]);
  });
  it("text, and all together", () => {
    expect(found("", "name:~SPRING")).toEqual([0, 1]);
    expect(found("sale", "name:~spring;status:active")).toEqual([0]);
  });
});

describe("totals", () => {
  it("by unit, never over units", () => {
    const { totals, statuses, over } = new Tally(table).update(Uint8Array.of(1, 1, 1));
    expect(totals.map(({ unit, rows, spent, zones }) => [unit, rows, spent, zones])).toEqual([
      ["USD", 2, 25_000_001n, 2],
      ["count", 1, 99n, 1],
    ]);
    expect(statuses.slice(0, 3)).toEqual([1, 1, 1]);
    expect(over).toBe(0);
    table.available[1] = -1;
    expect(new Tally(table).update(Uint8Array.of(1, 1, 1)).over).toBe(1);
    expect(found("", "available:..-1")).toEqual([1]);
    table.available[1] = 0;
  });
});

describe("selection", () => {
  it("some, all, all but some", () => {
    const selection = new Selection();
    selection.toggle(1);
    expect([selection.has(1), selection.count(3)]).toEqual([true, 1]);
    selection.selectAll();
    selection.toggle(2);
    expect([selection.has(1), selection.has(2), selection.count(3), selection.named()]).toEqual([
      true,
      false,
      2,
      [2],
    ]);
    selection.set(2, true);
    expect(selection.count(3)).toBe(3);
  });
  it("follows its budgets into a new table", () => {
    const selection = new Selection();
    selection.toggle(2);
    const other = tableOf([{}, {}]);
    other.ids[0] = "102";
    selection.moveTo(table, other);
    expect(selection.named()).toEqual([0]);
  });
});
