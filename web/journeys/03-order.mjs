import { column, figure, find, grid, header, ready, rows, sorted } from "./lib/grid.mjs";
import { GROUP } from "./lib/budgets.mjs";
import { same, until } from "./lib/wait.mjs";

export const title = "sorting by several columns; a steady order, how old it is, and frozen figures";

const choose = (page, group, name) =>
  page.getByRole("group", { name: group }).getByRole("button", { name, exact: true }).click();

/**
 * By unit, then by spent, the most first: figures of one unit fall from row to row. Frozen, since the header that was clicked has the
 * focus and so holds the order, while figures go on.
 */
async function twoColumns(page) {
  await choose(page, "Order of rows", "Frozen");
  await header(page, "Unit").click();
  await header(page, "Spent").click({ modifiers: ["Shift"] });
  await until(
    "a second key",
    async () => (await header(page, "Spent").getAttribute("aria-sort")) === "descending",
  );
  await until("rows by unit, then by spent", async () => {
    const pairs = (await rows(page)).map(({ cells }) => [cells.Unit, figure(cells.Spent) ?? 0]);
    sorted(
      pairs,
      ([unitA, spentA], [unitB, spentB]) => unitA.localeCompare(unitB) || spentB - spentA,
      "unit, then spent",
    );
    return true;
  });
}

/**
 * While the pointer is over the rows they stay, and a chip tells how old their order is. It is pressed by a key: a pointer on its way there
 * has left the rows, which then may move by themselves and take the chip away.
 */
async function steady(page) {
  await find(page, GROUP.name, GROUP.count);
  await header(page, /^Spend \/min/).click();
  await until(
    "an order by spend",
    async () => (await header(page, /^Spend \/min/).getAttribute("aria-sort")) === "descending",
  );
  await choose(page, "Order of rows", "Steady");
  await grid(page).locator('[role="row"][aria-rowindex="3"]').hover();
  const before = await column(page, "Id");
  const chip = page.getByRole("button", { name: /^Order is \d+ s old/ });
  await chip.waitFor();
  same(await column(page, "Id"), before, "rows under the pointer");
  await chip.press("Enter");
  await until(
    "rows where they belong",
    async () => JSON.stringify(await column(page, "Id")) !== JSON.stringify(before),
  );
}

/** Nothing changes, however long one looks; then it says how much did. */
async function freeze(page, press) {
  await page.mouse.move(1, 1);
  // Out of the search field: there an f is a letter.
  await page.keyboard.press("Tab");
  await press();
  const notice = page.getByRole("button", { name: /^Frozen at/ });
  await notice.waitFor();
  const before = JSON.stringify(await rows(page));
  await until("changes that are counted", async () => figure((await notice.innerText()).split(";")[1]) > 0);
  same(JSON.stringify(await rows(page)), before, "frozen rows");
  await press();
  await notice.waitFor({ state: "hidden" });
  await until("rows that changed meanwhile", async () => JSON.stringify(await rows(page)) !== before);
}

export default async function journey(stage) {
  const page = await stage.open();
  await ready(page);
  await twoColumns(page);
  await steady(page);
  await page.getByRole("searchbox").fill("");
  await ready(page);
  await freeze(page, () => page.keyboard.press("f"));
  await choose(page, "Order of rows", "Live");
  await until("live order in the address", () => page.url().includes("live"));
  await until("rows in live order", async () => (await rows(page)).length > 0);
}
