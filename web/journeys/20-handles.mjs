import { find, ready, rows } from "./lib/grid.mjs";
import { same, until } from "./lib/wait.mjs";

export const title = "a budget by its handle: searched, opened, renamed";

const ID = "900042";
const NAME = "Rowan, made in a journey";
const HANDLE = "rowan-42/gpt-5";
const RENAMED = "rowan-42/gpt-6";
const WHY = "journey: names";

export default async function journey(stage) {
  const { api } = stage;
  const budget = { id: ID, handle: HANDLE, name: NAME, unit: "USD", limit: "12.50" };
  await api.call("/budgets", { method: "POST", body: { budget, why: WHY } });

  const page = await stage.open();
  await ready(page);
  await find(page, "rowan-42/", 1);
  await until("its row", async () => (await rows(page)).some(({ cells }) => cells.Id === ID));
  await page.getByRole("link", { name: NAME }).click();
  const heading = page.getByRole("heading", { level: 1, name: NAME });
  await heading.waitFor();
  await page.getByRole("link", { name: HANDLE, exact: true }).click();
  await until("an address with the handle", async () =>
    decodeURIComponent(page.url()).includes(`/campaign/${HANDLE}`),
  );
  await heading.waitFor();

  // As somebody types it, with its slash.
  const typed = await stage.open(page.url().replace(/campaign\/.*$/u, `campaign/${HANDLE}`));
  await typed.getByRole("heading", { level: 1, name: NAME }).waitFor();

  await api.patch(ID, { handle: RENAMED }, WHY);
  // An address with a handle is that of whoever has it now.
  await page.getByText(`there is no budget with the handle "${HANDLE}"`).first().waitFor();
  const renamed = await stage.open(page.url().replace(/campaign\/.*$/u, `campaign/${RENAMED}`));
  await renamed.getByRole("link", { name: RENAMED, exact: true }).waitFor();
  same((await api.budget(encodeURIComponent(RENAMED))).id, ID, "the budget by its new handle");
}
