import { describe, expect, it } from "vitest";
import { narrowed } from "../src/grid/narrow";
import { DEFAULT_COLUMNS, parseColumns } from "../src/url/view";

const SCREEN = 800;
const TICK = 36;
const keys = (columns: ReturnType<typeof narrowed>) => columns.map(({ key }) => key);

/** As in grid.css. */
const SCROLLBAR = 12;

describe("a narrow window", () => {
  it.each([
    ["wide", 1_440],
    ["middle", 1_280],
  ] as const)("shows all default columns beside a scrollbar: %s, %d pixels", (room, screen) =>
    expect(
      narrowed(DEFAULT_COLUMNS, room).reduce((sum, { width }) => sum + width, TICK + SCROLLBAR),
    ).toBeLessThanOrEqual(screen),
  );
  it("shows status and sums without scrolling, and neither pace nor curve", () => {
    const shown = narrowed(DEFAULT_COLUMNS, "narrow");
    expect(keys(shown).slice(0, 7)).toEqual(["name", "id", "status", "spent", "limit", "available", "unit"]);
    const wide = shown.slice(0, 6).reduce((sum, { width }) => sum + width, TICK);
    expect(wide).toBeLessThanOrEqual(SCREEN);
    expect(keys(shown)).not.toContain("pace");
    expect(keys(shown)).not.toContain("spend");
  });
  it("keeps widths that somebody chose, and columns that hold more than an amount", () => {
    const shown = narrowed(parseColumns("name*300,spent90,day_spent"), "narrow");
    expect(shown.map(({ width }) => width)).toEqual([300, 90, 212]);
  });
  it("keeps what would give way where there is nothing else", () =>
    expect(keys(narrowed(parseColumns("pace,spend"), "narrow"))).toEqual(["pace", "spend"]));
});
