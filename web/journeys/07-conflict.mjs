import { SINGLES } from "./lib/budgets.mjs";
import { written } from "./lib/grid.mjs";
import { same, until } from "./lib/wait.mjs";

export const title =
  "a limit changed on a campaign's page; a change by somebody else is told, not overwritten";

const ID = SINGLES.first + 5;
/** Base units: micros of a dollar. */

async function openDialog(page) {
  await page.getByRole("button", { name: /^Change limits/ }).click();
  const dialog = page.getByRole("dialog", { name: /^Change limits/ });
  await dialog.waitFor();
  return dialog;
}

/** The limit of the books, which the page loads together with the ETag: the list of changes may tell of it earlier. */
const limitShown = (page, amount) =>
  page
    .getByRole("region", { name: "Books" })
    .getByRole("row")
    .filter({ has: page.getByRole("rowheader", { name: "limit", exact: true }) })
    .getByText(written(amount))
    .waitFor();

async function fill(dialog, limit, why) {
  await dialog.getByLabel("Limit, USD", { exact: true }).fill(limit);
  await dialog.getByLabel(/^Reason/).fill(why);
  await dialog.getByRole("button", { name: /^Change/ }).click();
}

export default async function journey(stage) {
  const { api } = stage;
  const page = await stage.open(`/ui/campaign/${ID}`);
  await page.getByRole("heading", { level: 1 }).filter({ hasText: SINGLES.name }).waitFor();
  const first = await openDialog(page);
  await fill(first, "60000.50", "journey: more room");
  await first.waitFor({ state: "hidden" });
  await until("the new limit in the API", async () => (await api.budget(ID)).limit === "60000.50");
  await limitShown(page, "60000.50");

  const second = await openDialog(page);
  await api.patch(ID, { limit: "70000.00" }, "journey: somebody else");
  await fill(second, "80000.00", "journey: too late");
  await second.getByRole("alert").waitFor();
  same((await api.budget(ID)).limit, "70000.00", "the limit that the other one set");
  await second.getByRole("button", { name: "Cancel" }).click();
  await limitShown(page, "70000.00");

  const third = await openDialog(page);
  await fill(third, "80000.00", "journey: having seen it");
  await third.waitFor({ state: "hidden" });
  await until("the last limit in the API", async () => (await api.budget(ID)).limit === "80000.00");
  const changes = page.getByRole("region", { name: "Changes", exact: true });
  await changes.getByRole("row").filter({ hasText: "journey: having seen it" }).waitFor();
  await changes.getByRole("row").filter({ hasText: "journey: somebody else" }).waitFor();
}
