import { describe, expect, it } from "vitest";
import { radixSort, writeWords } from "../src/grid/radix";
import { type SortKey, Sorted, clicked, entering } from "../src/grid/sort";
import type { Table } from "../src/live/table";
import { numbers, tableOf } from "./made";

function sorted(values: number[], descending: boolean): number[] {
  const rows = Uint32Array.from(values, (_, i) => i);
  const [high, low, spare] = [rows.slice(), rows.slice(), rows.slice()];
  writeWords({ high, low }, Float64Array.from(values), rows, descending);
  const first = radixSort(rows, low, spare);
  return [...radixSort(first, high, first === spare ? new Uint32Array(values.length) : spare)].map(
    (row) => values[row]!,
  );
}

describe("radix sort", () => {
  const values = [
    3,
    -1,
    NaN,
    0,
    9_007_199_254_740_991,
    -9_007_199_254_740_991,
    0.95,
    0.9500001,
    Infinity,
    -0.5,
    2 ** 32,
    2 ** 32 + 1,
  ];
  const finite = values.filter((value) => !Number.isNaN(value));

  it("sorts doubles, none last", () =>
    expect(sorted(values, false)).toEqual([...finite.sort((a, b) => a - b), NaN]));
  it("the other way round, none still last", () =>
    expect(sorted(values, true)).toEqual([...finite.sort((a, b) => b - a), NaN]));

  it("agrees with a comparator on many", () => {
    const random = numbers(1);
    const many = Array.from(
      { length: 20_000 },
      () => Math.round((random() - 0.5) * 1e12) / (random() > 0.5 ? 1 : 1000),
    );
    expect(sorted(many, false)).toEqual([...many].sort((a, b) => a - b));
  });

  it("nothing and one", () => {
    expect(sorted([], false)).toEqual([]);
    expect(sorted([7], true)).toEqual([7]);
  });
});

const sortRows = (table: Table, keys: SortKey[]): number[] => [...new Sorted(table, keys).rows];

describe("rows", () => {
  const table = tableOf([
    { name: "b 10", unit: "USD", spent: 5 },
    { name: "b 9", unit: "EUR", spent: 5 },
    { name: "a", unit: "USD", spent: 7 },
    { name: "C", unit: "EUR", spent: 1 },
  ]);

  it("by several keys, equals by row", () => {
    expect(sortRows(table, [{ column: "spent", descending: true }])).toEqual([2, 0, 1, 3]);
    expect(
      sortRows(table, [
        { column: "unit", descending: false },
        { column: "spent", descending: false },
      ]),
    ).toEqual([3, 1, 0, 2]);
    expect(sortRows(table, [])).toEqual([0, 1, 2, 3]);
  });

  it("names by language: numbers in them count, case does not", () => {
    expect(sortRows(table, [{ column: "name", descending: false }])).toEqual([2, 1, 0, 3]);
  });

  it("no pace is last both ways", () => {
    const paced = tableOf([{}, { planned: 100, windowSpent: 95 }, { planned: 100, windowSpent: 120 }]);
    for (const descending of [true, false])
      expect(sortRows(paced, [{ column: "pace", descending }]).at(-1)).toBe(0);
  });

  it.each([
    ["stands", [0, 1, 2, 3], [0, 1, 2, 3], null],
    ["below the view", [0, 1, 2, 3], [0, 1, 3, 2], 0],
    ["within the view", [0, 1, 2, 3], [1, 0, 2, 3], 0],
    ["one rises past the view and shifts all", [0, 1, 2, 3], [3, 0, 1, 2], 1],
    ["others", [0, 1, 2, 3], [3, 2, 1, 0], 2],
    ["fewer", [0, 1], [2], 1],
  ] as const)("rows that would come into view: %s", (_, shown, sorted, count) =>
    expect(entering(Uint32Array.from(shown), Uint32Array.from(sorted), [0, 2])).toBe(count),
  );
});

describe("a click on a header", () => {
  const spent = { column: "spent", descending: true };
  it("goes through three states", () => {
    expect(clicked([], "spent", true, false)).toEqual([spent]);
    expect(clicked([spent], "spent", true, false)).toEqual([{ column: "spent", descending: false }]);
    expect(clicked([{ column: "spent", descending: false }], "spent", true, false)).toEqual([]);
    expect(clicked([], "name", false, false)).toEqual([{ column: "name", descending: false }]);
  });
  it("with shift joins, keeping places", () => {
    const name = { column: "name", descending: false };
    expect(clicked([spent], "name", false, true)).toEqual([spent, name]);
    expect(clicked([spent, name], "spent", true, true)).toEqual([
      { column: "spent", descending: false },
      name,
    ]);
    expect(clicked([spent, name], "limit", true, false)).toEqual([{ column: "limit", descending: true }]);
  });
});
