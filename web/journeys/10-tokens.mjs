import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { SINGLES, budgetLines } from "./lib/budgets.mjs";
import { deed, find, ready, selection, tick } from "./lib/grid.mjs";
import { Node } from "./lib/node.mjs";
import { same, sure } from "./lib/wait.mjs";

export const title =
  "with tokens: a wrong one is told, a reader sees and cannot change, an operator can, one is taken back";
export const needsProcess = true;

const READER = "reader-token-of-the-journeys";
const OPERATOR = "operator-token-of-the-journeys";

function config(folder) {
  const tokens = join(folder, "tokens");
  writeFileSync(tokens, `# name role token\nrita read ${READER}\nolga operate ${OPERATOR}\n`, {
    mode: 0o600,
  });
  return `[admin]\ntokens_file = ${JSON.stringify(tokens)}\n`;
}

async function signIn(page, token) {
  await page.getByLabel("Token").fill(token);
  await page.getByRole("button", { name: "Sign in" }).click();
}

async function selectOne(page) {
  await ready(page);
  await find(page, SINGLES.name, SINGLES.count);
  await tick(page, [SINGLES.first]);
  return selection(page).getByRole("button", { name: /^Pause/ });
}

async function reader(stage, node) {
  const page = await stage.open(`${node.url}/ui/`);
  await page.getByText(/^This node wants a token/).waitFor();
  same(await page.getByRole("grid").count(), 0, "grids before the sign-in");
  await signIn(page, "not-a-token-of-this-node");
  await page.getByText(/does not know that token/).waitFor();
  await signIn(page, READER);
  const pause = await selectOne(page);
  sure(await pause.isDisabled(), "a reader cannot pause");
  const answer = await fetch(`${node.url}/v1/budgets/${SINGLES.first}/pause`, {
    method: "POST",
    headers: { Authorization: `Bearer ${READER}`, "Content-Type": "application/json" },
    body: JSON.stringify({ why: "journey: not allowed" }),
  });
  same(answer.status, 403, "answer of the node to a reader who tries all the same");
}

async function operator(stage, node) {
  const page = await stage.open(`${node.url}/ui/`);
  await signIn(page, OPERATOR);
  const pause = await selectOne(page);
  await pause.click();
  const dialog = page.getByRole("dialog", { name: /^Pause 1/ });
  await dialog.getByLabel(/^Reason/).fill("journey: allowed");
  await dialog.getByRole("button", { name: "Pause", exact: true }).click();
  await deed(page)
    .getByText(/Pause: 1 changed/)
    .waitFor();
  await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "Audit log" }).click();
  const record = page.getByRole("row").filter({ hasText: "journey: allowed" });
  await record.waitFor();
  sure(/olga/.test(await record.innerText()), "the audit log names the token's owner");
}

/** A token that is taken back while its page is open: no figure stays as if it were live, and nothing can be done. */
async function takenBack(stage, node) {
  const page = await stage.open(`${node.url}/ui/`);
  await signIn(page, READER);
  await ready(page);
  await node.kill();
  const tokens = join(node.folder, "tokens");
  writeFileSync(tokens, `olga operate ${OPERATOR}\n`, { mode: 0o600 });
  await node.start();
  await page.getByText(/knows it no longer/).waitFor();
  same(await page.getByRole("grid").count(), 0, "grids after the token was taken back");
}

export default async function journey(stage) {
  const node = new Node(stage.weir, budgetLines(stage.weir), config);
  try {
    await node.start();
    same((await fetch(`${node.url}/v1/budgets`)).status, 401, "answer without a token");
    await reader(stage, node);
    await operator(stage, node);
    await takenBack(stage, node);
  } finally {
    await node.stop();
  }
}
