import { deed, find, ready, rows, selection, tick } from "./lib/grid.mjs";
import { SINGLES } from "./lib/budgets.mjs";
import { same, sure, until } from "./lib/wait.mjs";

export const title =
  "undo asks as the change did: effect, reason; the audit log has both; a budget made ends";

const WHY = "journey: paused by mistake";
const WHY_BACK = "journey: it was right all along";

async function pauseThree(page, ids) {
  await tick(page, ids);
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

/** As before any change: what it comes to, then why. Until then nothing happens. */
async function undo(page, name, why) {
  const dialog = page.getByRole("dialog", { name });
  const button = dialog.getByRole("button", { name: "Undo", exact: true });
  await dialog.getByText(/\d will be put back/).waitFor();
  await dialog.getByText(/^Lets up to .* be spent again|^Ends what the record made/).waitFor();
  sure(await button.isDisabled(), "no undo without a reason");
  await dialog.getByLabel(/^Reason/).fill(why);
  await button.click();
  await dialog.waitFor({ state: "hidden" });
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
  const undone = page.getByRole("row").filter({ hasText: WHY_BACK }).first();
  const said = await undone.innerText();
  sure(
    /undo/.test(said) && /local/.test(said) && /paused\s*→\s*active/.test(said),
    `the undo is a record of its own, with its reason: ${said}`,
  );
}

/** A budget that was made ends; the page says so before, and the limit is none afterwards. */
async function endsWhatWasMade(page, api) {
  const budget = { id: "900002", name: "Rowan, made by mistake", unit: "USD", limit: "10.00" };
  await api.call("/budgets", {
    method: "POST",
    body: { budget, why: "journey: made by mistake" },
    headers: { "Idempotency-Key": crypto.randomUUID() },
  });
  const known = async () => (await api.budgets("q=Rowan")).length === 1;
  await until("figures of the new budget", known);
  await page.reload();
  const row = page.getByRole("row").filter({ hasText: "journey: made by mistake" });
  await row.getByRole("button", { name: /^Undo/ }).click();
  const dry = page.getByRole("dialog", { name: "Undo create of 1 budget" });
  await dry.getByText(/nothing more is granted/).waitFor();
  const [made] = await api.audit("budget=900002&max=1");
  const { value: told } = await api.call(`/audit/${made.record}/undo`, {
    method: "POST",
    body: { why: "dry run", dry_run: true },
  });
  const [{ unit, limit_before, limit_after }] = told.effect;
  same([unit, limit_before, limit_after], ["USD", "10.00", "0.00"], "the limit before and after");
  sure((await api.budget("900002")).status !== "ended", "it has not ended before somebody confirms");
  await undo(page, "Undo create of 1 budget", "journey: not needed");
  await until("its end", async () => (await api.budget("900002")).status === "ended");
  const [record] = await api.audit("budget=900002&max=1");
  same([record.action, record.why], ["undo", "journey: not needed"], "the newest record of it");
  await row.getByText(/undone by/).waitFor();
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
  // At once, as it is offered for half a minute; its dialog stays.
  await deed(page)
    .getByRole("button", { name: /^Undo… \(\d+ s\)/ })
    .click();
  await until("three paused budgets", async () => (await status()).every((one) => one === "paused"));
  await undo(page, "Undo pause of 3 budgets", WHY_BACK);
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
  await endsWhatWasMade(page, api);
}
