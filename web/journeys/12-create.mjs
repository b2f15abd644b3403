import { find, ready, rows } from "./lib/grid.mjs";
import { SINGLES } from "./lib/budgets.mjs";
import { becomes, same, sure, until } from "./lib/wait.mjs";

export const title = "a new budget: refused while it is none, then there for all";

const ID = "900001";
/** A budget in the same unit. */
const PARENT = String(SINGLES.first + 15);
const NAME = "Hawthorn, made in a journey";
const WHY = "journey: a new advertiser";

async function create(page, api) {
  await page.getByRole("button", { name: /^New/ }).click();
  const dialog = page.getByRole("dialog", { name: "New budget" });
  const button = dialog.getByRole("button", { name: "Create" });
  sure(await button.isDisabled(), "an empty form is no budget");
  const fill = (label, text) => dialog.getByLabel(label, { exact: true }).fill(text);
  const proposed = await until("an id that is proposed", async () => {
    const found = await dialog.getByLabel("Id", { exact: true }).inputValue();
    return /^\d+$/.test(found) && found;
  });
  await api.call(`/budgets/${proposed}`).then(
    () => Promise.reject(new Error(`budget ${proposed} is there already`)),
    () => {},
  );
  await fill("Name", NAME);
  await fill("Id", "1");
  await dialog.getByText(/^There is a budget 1 already/).waitFor();
  await fill("Unit", "USD");
  await fill(/^Limit/, "1250.00");
  await fill(/^Reason/, WHY);
  await button.click();
  await dialog.getByText(/there is a budget 1 already; choose another id/).waitFor();
  await fill("Id", ID);
  await fill("Part of", PARENT);
  await dialog.getByText(/its limit binds this one, too/).waitFor();
  const effect = dialog.getByText(/^It may spend up to/);
  await becomes(
    async () =>
      /^It may spend up to 1[,\s\u202f]?250\.000000 USD, from now on\./u.test(await effect.innerText()),
    true,
    "one sentence",
  );
  await button.click();
  await dialog.waitFor({ state: "hidden" });
}

export default async function journey(stage) {
  const { api } = stage;
  const page = await stage.open();
  await ready(page);
  await create(page, api);
  await page.getByRole("heading", { level: 1, name: NAME }).waitFor();
  const budget = await api.budget(ID);
  same(
    [budget.name, budget.unit, budget.limit, budget.parent],
    [NAME, "USD", "1250.00", PARENT],
    "the new budget in the API",
  );
  const [record] = await api.audit(`budget=${ID}&max=1`);
  same([record.action, record.why], ["create", WHY], "its record in the audit log");
  await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "Budgets" }).click();
  await ready(page);
  await find(page, NAME, 1);
  await until("its row", async () => (await rows(page)).some(({ cells }) => cells.Id === ID));
}
