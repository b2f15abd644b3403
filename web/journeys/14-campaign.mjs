import { GROUP } from "./lib/budgets.mjs";
import { figure, find, ready, rowOf } from "./lib/grid.mjs";
import { becomes, sure, until } from "./lib/wait.mjs";

export const title =
  "one campaign: its books, why it does not spend, refusals, history as chart and as table";

/** Two whole minutes of history make the first line of a chart: a node that has just started has them after three. */
const HISTORY_MS = 240_000;
const ID = GROUP.first;
const LINES = [
  "free",
  "with the workers",
  "in holds",
  "suspended, of an earlier run",
  "expired, kept for late notices",
  "settled",
  "settled above holds",
  "settled late",
];

/** The lines of the books add up to the limit. */
async function books(page, budget) {
  const card = page.getByRole("region", { name: "Books" });
  const line = async (name) =>
    figure(
      await card
        .getByRole("row")
        .filter({ has: page.getByRole("rowheader", { name, exact: true }) })
        .getByRole("cell")
        .last()
        .innerText(),
    );
  await becomes(() => line("limit"), Number(budget.limit), "limit of the books");
  await until("lines that add up to the limit", async () => {
    const lines = await Promise.all(LINES.map(line));
    return Math.abs(lines.reduce((sum, value) => sum + value, 0) - (await line("limit"))) < 1e-6;
  });
}

/** Of the budget that is refused most. */
async function refusals(stage) {
  const { api } = stage;
  const { budgets } = await until("a budget that is refused", async () => {
    const found = await api.get("/budgets?filter=campaign:no&sort=-refusals&max=1");
    return found.budgets[0].refusals_per_s > 0 && found;
  });
  // Counted since the start of the run, so what is read before the page opens is on the page, too.
  const verdicts = await until("counts of what asks were refused for", async () => {
    const found = (await api.get(`/budgets/${budgets[0].id}/refusals`)).verdicts;
    return found.length > 0 && found;
  });
  const page = await stage.open(`/ui/campaign/${budgets[0].id}`);
  const card = page.getByRole("region", { name: /^Why (not spending|it spends)/ }).first();
  for (const { verdict } of verdicts.slice(0, 3))
    await card
      .getByRole("cell", { name: verdict.replaceAll("_", " "), exact: true })
      .first()
      .waitFor();
  await card.getByRole("button", { name: "Last refusals" }).click();
  const last = card.getByRole("region", { name: "Last refusals" });
  await last.getByRole("row").nth(1).waitFor();
  sure((await last.getByRole("row").count()) <= 101, "at most a hundred are listed");
}

async function history(page, api) {
  const minutes = async () =>
    (await api.get(`/budgets/${ID}/history`)).spent.filter((spent) => spent !== null).length;
  await until("two minutes of history", async () => (await minutes()) >= 2, HISTORY_MS);
  await page.reload();
  const card = page.getByRole("region", { name: "Spent against plan" }).first();
  await card.locator("canvas").first().waitFor();
  await card.getByRole("button", { name: "Table" }).click();
  const table = page.getByRole("region", { name: "Spent against plan, as a table" });
  await until(
    "figures in the table",
    async () =>
      (await table.getByRole("cell").allInnerTexts()).filter((text) => figure(text) > 0).length >= 2,
  );
  await card.getByRole("button", { name: "Table" }).click();
  await card.locator("canvas").first().waitFor();
}

export default async function journey(stage) {
  const { api } = stage;
  const list = await stage.open();
  await ready(list);
  await find(list, `${GROUP.name} 001`, 1);
  await (await rowOf(list, ID)).getByRole("link").click();
  await list.getByRole("heading", { level: 1, name: `${GROUP.name} 001` }).waitFor();
  await books(list, await api.budget(ID));
  await refusals(stage);
  await list.getByText("Forecast", { exact: true }).waitFor();
  await history(list, api);
  await list.getByRole("button", { name: "Back" }).click();
  await ready(list, 1);
}
