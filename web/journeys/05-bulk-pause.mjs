import { deed, find, ready, rows, selectAll, selection } from "./lib/grid.mjs";
import { GROUP } from "./lib/budgets.mjs";
import { becomes, same, sure, until } from "./lib/wait.mjs";

export const title = "all of a search paused at once, with typed count and reason; they stop at the door";
export const needsProcess = true;

const WHY = "journey: wrong creative";
/** Asks for the budgets of the group and for no others, which have the lowest ids. How many are asked is the machine's affair. */
const askGroup = (node) =>
  node.asks(
    "--budgets",
    String(GROUP.count),
    "--duration",
    "500ms",
    "--rate",
    "4000",
    "--win",
    "0",
    "--skew",
    "0",
  );

/** A purse may be empty for a moment, and a busy machine may ask little: asked until there is a grant. */
const granted = (node, when) =>
  until(`grants for the group's budgets ${when}`, () => askGroup(node).granted > 0);

async function confirm(page) {
  const dialog = page.getByRole("dialog", { name: /^Pause 150/ });
  const button = dialog.getByRole("button", { name: "Pause", exact: true });
  await dialog.getByText(/150 will change/).waitFor();
  sure(await button.isDisabled(), "no pause without a reason");
  await dialog.getByLabel(/^Reason/).fill(WHY);
  await dialog.getByLabel(/^Type 150/).fill("149");
  sure(await button.isDisabled(), "no pause with another count");
  await dialog.getByLabel(/^Type 150/).fill("150");
  await button.click();
  await dialog.waitFor({ state: "hidden" });
}

async function rowByRow(page) {
  await deed(page)
    .getByText(/Pause: 150 changed/)
    .waitFor();
  await deed(page).getByRole("button", { name: "Row by row" }).click();
  const dialog = page.getByRole("dialog", { name: "Row by row" });
  await becomes(
    () => dialog.getByRole("row").filter({ hasText: "changed" }).count(),
    GROUP.count,
    "rows with their result",
  );
  await dialog.getByRole("button", { name: "Close" }).click();
}

export default async function journey(stage) {
  const { node, api } = stage;
  await granted(node, "before");
  const page = await stage.open();
  await ready(page);
  await find(page, GROUP.name, GROUP.count);
  await selectAll(page, GROUP.count);
  await selection(page)
    .getByRole("button", { name: /^Pause/ })
    .click();
  await confirm(page);
  await rowByRow(page);

  // The change is sealed before it is told; the workers hear of it a moment later, and from then on nothing is granted.
  const stopped = () => {
    const { granted: grants, refused } = askGroup(node);
    return grants === 0 && refused.paused > 0;
  };
  await until("refusals that say paused, and no grant", stopped);
  same(askGroup(node).granted, 0, "grants for paused budgets");
  await until("every row paused", async () =>
    (await rows(page)).every(({ cells }) => cells.Status.includes("paused")),
  );
  const paused = await until("all of them paused in the API", async () => {
    const found = await api.budgets(`q=${GROUP.name}&filter=status:paused`);
    return found.length === GROUP.count && found;
  });
  same(new Set(paused.map(({ reason }) => reason)).size, 1, "reasons of the pause");
  const [record] = await api.audit("max=1");
  same(
    [record.action, record.rows, record.why],
    ["pause", GROUP.count, WHY],
    "the newest record of the audit log",
  );

  await resume(page);
  await granted(node, "again");
}

async function resume(page) {
  await selectAll(page, GROUP.count);
  await selection(page)
    .getByRole("button", { name: /^Resume/ })
    .click();
  const dialog = page.getByRole("dialog", { name: /^Resume 150/ });
  await dialog.getByLabel(/^Reason/).fill("journey: all is well");
  await dialog.getByLabel(/^Type 150/).fill("150");
  await dialog.getByRole("button", { name: "Resume", exact: true }).click();
  await deed(page)
    .getByText(/Resume: 150 changed/)
    .waitFor();
  await until("no row paused", async () =>
    (await rows(page)).every(({ cells }) => !cells.Status.includes("paused")),
  );
}
