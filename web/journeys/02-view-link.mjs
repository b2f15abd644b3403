import { column, find, grid, header, matched, ready, search } from "./lib/grid.mjs";
import { GROUP } from "./lib/budgets.mjs";
import { becomes, sure, until } from "./lib/wait.mjs";

export const title = "search and filters by column; the address of the view opens it elsewhere";

async function filter(page, title, fill) {
  const menu = page.getByRole("group").filter({ has: page.locator("summary", { hasText: /^Filter/ }) });
  await menu.locator("summary").click();
  await menu.getByLabel("Column").selectOption({ label: title });
  await fill(menu);
  await page.keyboard.press("Escape");
  await menu.getByLabel("Column").waitFor({ state: "hidden" });
}

export default async function journey(stage) {
  const page = await stage.open();
  await ready(page);
  const all = await matched(page);

  await find(page, GROUP.name.toLowerCase(), GROUP.count);
  await until("rows that all have what was searched", async () =>
    (await column(page, "Budget")).every((name) => name.startsWith(GROUP.name)),
  );
  await filter(page, "Id", (menu) => menu.getByLabel("has").fill("7"));
  const sevens = Array.from({ length: GROUP.count }, (_, i) => GROUP.first + i).filter((id) =>
    String(id).includes("7"),
  ).length;
  await until(`${sevens} rows whose id has a 7`, async () => (await matched(page)) === sevens);
  await filter(page, "Status", (menu) => menu.getByRole("checkbox", { name: "paused" }).check());
  await page.getByRole("heading", { name: "Nothing matches" }).waitFor();
  await filter(page, "Status", (menu) => menu.getByRole("checkbox", { name: "active" }).check());
  await filter(page, "Status", (menu) => menu.getByRole("checkbox", { name: "limited" }).check());
  await filter(page, "Status", (menu) => menu.getByRole("checkbox", { name: "exhausted" }).check());
  await filter(page, "Limit", (menu) => menu.getByLabel("at least").fill("1"));
  await until(`${sevens} rows again`, async () => (await matched(page)) === sevens);
  await header(page, "Budget").click();
  await until(
    "an order by name",
    async () => (await header(page, "Budget").getAttribute("aria-sort")) === "ascending",
  );

  const other = await stage.open(page.url());
  await ready(other, sevens);
  await until(
    "the same rows behind the opened link",
    async () =>
      JSON.stringify(await column(other, "Budget")) === JSON.stringify(await column(page, "Budget")),
  );
  await becomes(() => search(other).inputValue(), GROUP.name.toLowerCase(), "search of the opened link");
  await becomes(
    () => header(other, "Budget").getAttribute("aria-sort"),
    "ascending",
    "order of the opened link",
  );

  const filters = other.getByRole("button", { name: /^remove the filter/ });
  for (const left of [3, 2, 1]) {
    await becomes(() => filters.count(), left, "filters that are left");
    await filters.first().click();
  }
  await search(other).fill("");
  await until("all rows again", async () => (await matched(other)) === all);
}
