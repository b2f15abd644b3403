// @vitest-environment happy-dom
// What stands in a cell of the grid.
import { describe, expect, it } from "vitest";
import { cellOf, roomOf } from "../src/grid/cells";
import { columnOf } from "../src/grid/columns";
import { tableOf } from "./made";

const AROUND = { nowMs: 0, zoneOf: () => "UTC" };
const DIGIT = 8;

/** The cell of a column, painted for the first row of a table. */
function painted(key: string, row: Record<string, unknown>, width = columnOf(key)!.width): HTMLElement {
  const column = columnOf(key)!;
  const element = document.createElement("div");
  const table = tableOf([row]);
  const cell = cellOf(element, column, roomOf(column, width, DIGIT));
  cell.paint(table, 0, AROUND);
  element.title = cell.about?.(table, 0, AROUND) ?? "";
  return element;
}

describe("the number beside a sparkline", () => {
  it.each([
    [0, "0.00"],
    [700, "0.01"],
    [12_345_678, "12.35"],
    [12_345_678_900, "12.3 k"],
    [3_200_000_000_000_000, "3.20 bn"],
  ])("%d micros in the last minute", (spendMinute, text) =>
    expect(painted("spend", { spendMinute }).textContent).toBe(text),
  );
  it("is its label where the column was made too narrow for it", () => {
    const cell = painted("spend", { spendMinute: 700 }, 90);
    expect([cell.textContent, cell.getAttribute("aria-label")]).toEqual([
      "",
      "0.000700 USD in the last minute",
    ]);
  });
});
