import { grid, header, ready, titles } from "./lib/grid.mjs";
import { becomes, until } from "./lib/wait.mjs";

export const title = "columns hidden, moved, pinned and resized are so after a reload";

const width = async (page, title) => Math.round((await header(page, title).boundingBox()).width);

/** Drags the edge of a header's cell. */
async function drag(page, title, by) {
  const box = await header(page, title).boundingBox();
  const [x, y] = [box.x + box.width - 2, box.y + box.height / 2];
  await page.mouse.move(x, y);
  await page.mouse.down();
  await page.mouse.move(x + by / 2, y, { steps: 4 });
  await page.mouse.move(x + by, y, { steps: 4 });
  await page.mouse.up();
}

export default async function journey(stage) {
  const page = await stage.open();
  await ready(page);
  const initial = await titles(page);
  const menu = page.locator("details", { has: page.getByText("Columns", { exact: true }) });
  await menu.getByText("Columns", { exact: true }).click();
  await menu.getByRole("checkbox", { name: "Unit" }).uncheck();
  await menu.getByRole("checkbox", { name: "Debt" }).check();
  await menu.getByRole("button", { name: "pin Status" }).click();
  await menu.getByRole("button", { name: "Limit to the left", exact: true }).click();
  await page.keyboard.press("Escape");

  const shown = await until("one column less, another more, Limit before Spent", async () => {
    const found = await titles(page);
    return (
      !found.includes("Unit") &&
      found.includes("Debt") &&
      found.indexOf("Limit") < found.indexOf("Spent") &&
      found
    );
  });
  const before = await width(page, "Budget");
  // What stands above the grid may move it while the mouse is on its way: then the rest is dragged again.
  await until("a wider column", async () => {
    const rest = before + 60 - (await width(page, "Budget"));
    if (Math.abs(rest) <= 2) return true;
    await drag(page, "Budget", rest);
    return false;
  });

  // A pinned column stays where it is when the others go.
  const xOf = async (title) => (await header(page, title).boundingBox()).x;
  const [left, pace] = [await xOf("Status"), await xOf("Pace")];
  await grid(page).getByRole("columnheader").last().scrollIntoViewIfNeeded();
  await until("columns that scrolled away", async () => (await xOf("Pace")) < pace - 1);
  await becomes(() => xOf("Status"), left, "place of the pinned column");

  const wide = await width(page, "Budget");
  await page.reload();
  await ready(page);
  await becomes(() => titles(page), shown, "columns after a reload");
  await becomes(() => width(page, "Budget"), wide, "width after a reload");
  await menu.getByText("Columns", { exact: true }).click();
  await menu.getByRole("button", { name: "Reset columns" }).click();
  await becomes(() => titles(page), initial, "columns after they were reset");
}
