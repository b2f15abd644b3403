import { freshness, grid, matched, ready, rows } from "./lib/grid.mjs";
import { becomes, sure, until } from "./lib/wait.mjs";

export const title = "the grid is live: rows, figures that change, and how old they are";

export default async function journey(stage) {
  const page = await stage.open();
  await ready(page);
  const { matched: known } = await stage.api.get("/budgets?max=1");
  await becomes(() => matched(page), known, "rows of the grid beside budgets of the node");
  sure((await rows(page)).length < 100, "only rows that can be seen are in the page");

  const banner = page.getByRole("banner");
  const asOf = async () => (await banner.innerText()).match(/as of ([\d:.]+)/)?.[1];
  const before = {
    rows: JSON.stringify(await rows(page)),
    asOf: await until("a header that says as of when the figures are", asOf),
  };
  await until("figures that change", async () => JSON.stringify(await rows(page)) !== before.rows);
  await until("another “as of”", async () => (await asOf()) !== before.asOf);
  await until("fresh figures", async () => (await freshness(page)) === "fresh");
  await banner.getByText("live", { exact: true }).waitFor();
  sure((await grid(page).getAttribute("aria-colcount")) !== null, "the grid tells how many columns it has");
}
