import { deed, find, ready, rowOf, rows, selected, selection } from "./lib/grid.mjs";
import { SINGLES } from "./lib/budgets.mjs";
import { same, sure, until } from "./lib/wait.mjs";

export const title = "a pause undone within 30 s; the audit log has both, with who, why, before and after";

const WHY = "journey: paused by mistake";

async function pauseThree(page, ids) {
  for (const id of ids) await (await rowOf(page, id)).getByRole("gridcell").first().click();
  await selected(page, 3);
  await selection(page)
    .getByRole("button", { name: /^Pause/ })
    .click();
  const dialog = page.getByRole("dialog", { name: /^Pause 3/ });
  await dialog.getByLabel(/^Reason/).fill(WHY);
  await dialog.getByRole("button", { name: "Pause", exact: true }).click();
  await deed(page)
    .getByText(/Pause: 3 changed/)
    .waitFor();
}

async function auditPage(page) {
  await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "Audit log" }).click();
  await page.getByRole("heading", { name: "Audit log" }).waitFor();
  const pause = page.getByRole("row").filter({ hasText: WHY }).first();
  await pause.waitFor();
  const text = await until("the pause, marked as undone", async () => {
    const found = await pause.innerText();
    return /undone by/.test(found) && found;
  });
  sure(
    /local/.test(text) && /pause/.test(text) && /active\s*→\s*paused/.test(text),
    `who, what, before and after: ${text}`,
  );
  const undo = await page
    .getByRole("row")
    .filter({ hasText: /paused\s*→\s*active/ })
    .first()
    .innerText();
  sure(/undo/.test(undo) && /local/.test(undo), `the undo is a record of its own: ${undo}`);
}

export default async function journey(stage) {
  const { api } = stage;
  const ids = [SINGLES.first, SINGLES.first + 1, SINGLES.first + 2];
  const status = async () =>
    (await Promise.all(ids.map((id) => api.budget(id)))).map((budget) => budget.status);
  const page = await stage.open();
  await ready(page);
  await find(page, SINGLES.name, SINGLES.count);
  await pauseThree(page, ids);
  await until("three paused budgets", async () => (await status()).every((one) => one === "paused"));
  await deed(page)
    .getByRole("button", { name: /^Undo \(\d+ s\)/ })
    .click();
  await deed(page)
    .getByText(/^Undone for 3/)
    .waitFor();
  await until("three that run again", async () => (await status()).every((one) => one !== "paused"));
  await until("rows that say so", async () =>
    (await rows(page)).every(({ cells }) => !cells.Status.includes("paused")),
  );
  await auditPage(page);
  const records = await api.audit("max=10");
  const pause = records.find(({ why }) => why === WHY);
  same(
    records.find(({ undo_of }) => undo_of === pause.record)?.record,
    pause.undone_by,
    "record that took the pause back",
  );
}
