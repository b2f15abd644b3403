import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { GROUP, SINGLES } from "./lib/budgets.mjs";
import { find, loaded, ready, selectAll, selection } from "./lib/grid.mjs";
import { ordersShown, withOrders } from "./lib/orders.mjs";
import { sure } from "./lib/wait.mjs";

export const title = "axe finds nothing on any page, in light and in dark, with dialogs and menus open";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Violations as one line each: the rule, and the first element that breaks it. */
async function violations(page, where) {
  // Evaluated by the debugger: the page's own policy lets no foreign script in.
  await page.evaluate(AXE);
  const { violations: found } = await page.evaluate(() =>
    globalThis.axe.run(document, { resultTypes: ["violations"] }),
  );
  return found.map(
    ({ id, nodes }) =>
      `${where}: ${id}, ${nodes.length} times, first ${nodes[0].html.slice(0, 160)}; ${nodes[0].any.concat(nodes[0].all, nodes[0].none)[0]?.message ?? ""}`,
  );
}

const heading = (name) => (page) => page.getByRole("heading", { name }).first().waitFor();

const PAGES = [
  ["/ui/", (page) => ready(page)],
  [
    `/ui/campaign/${GROUP.first}`,
    (page) =>
      page
        .getByRole("region", { name: /^Why (not spending|it spends)/ })
        .first()
        .waitFor(),
  ],
  [
    "/ui/reports?by=campaign,place,day",
    (page) =>
      page
        .getByText(/as of|Nothing was booked/)
        .first()
        .waitFor(),
  ],
  ["/ui/engine", (page) => page.getByText(/sums hold/).waitFor()],
  ["/ui/costs", heading("CPU cost")],
  ["/ui/vault", heading("Vault")],
  ["/ui/fix", heading("FIX sessions")],
  ["/ui/orders", ordersShown],
  ["/ui/audit", heading("Audit log")],
  ["/ui/nowhere", heading("There is no such page")],
];

/** Stops orders of a firm with the keyboard alone, and lets them pass again. */
async function kill(page, theme) {
  const found = [];
  const [reason, stopped] = ["journey: a fat finger", page.getByRole("row", { name: /^firm JOURNEY/ })];
  // The node's own.
  await page.unrouteAll({ behavior: "wait" });
  await page.goto(new URL("/ui/orders", page.url()).href);
  await page.getByRole("button", { name: "Stop orders…" }).press("Enter");
  const dialog = page.getByRole("dialog", { name: "Stop orders" });
  await dialog.getByRole("button", { name: "Firm" }).press("Enter");
  await dialog.getByLabel("Name").fill("JOURNEY");
  await dialog.getByLabel(/^Reason/).fill(reason);
  found.push(...(await violations(page, `${theme}, dialog of a kill`)));
  await page.keyboard.press("Enter");
  await dialog.getByText(/^From now on/).waitFor();
  found.push(...(await violations(page, `${theme}, dialog of a kill, asked again`)));
  sure((await stopped.count()) === 0, "nothing is stopped before that is confirmed");
  // The focus is on the way back.
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await stopped.getByText(reason).waitFor();
  found.push(...(await violations(page, `${theme}, orders that are stopped`)));
  await stopped.getByRole("button", { name: "Let pass… firm JOURNEY" }).press("Enter");
  await page
    .getByRole("dialog")
    .getByLabel(/^Reason/)
    .fill("journey: it is over");
  await page.keyboard.press("Enter");
  await stopped.waitFor({ state: "detached" });
  return found;
}

/** What opens over the grid. */
async function dialogs(page, theme) {
  const found = [];
  await page.goto(new URL("/ui/", page.url()).href);
  await ready(page);
  for (const name of ["Filter", "Columns"]) {
    await page
      .locator("summary")
      .filter({ hasText: new RegExp(`^${name}`) })
      .click();
    found.push(...(await violations(page, `${theme}, menu ${name}`)));
    await page.keyboard.press("Escape");
  }
  await find(page, SINGLES.name, SINGLES.count);
  await selectAll(page, SINGLES.count);
  await selection(page)
    .getByRole("button", { name: /^Change limits/ })
    .click();
  await page.getByRole("dialog").waitFor();
  found.push(...(await violations(page, `${theme}, dialog of limits`)));
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: /^New/ }).click();
  await page.getByRole("dialog", { name: "New budget" }).waitFor();
  found.push(...(await violations(page, `${theme}, dialog of a new budget`)));
  await page.goto(new URL("/ui/audit", page.url()).href);
  await page.getByRole("button", { name: /^Undo/ }).first().click();
  await page.getByText(/will be put back|were changed since/).waitFor();
  found.push(...(await violations(page, `${theme}, dialog of an undo`)));
  found.push(...(await kill(page, theme)));
  await page.goto(new URL("/ui/?f=foo:bar&sort=nope", page.url()).href);
  await ready(page);
  await page.getByText(/not understood/).click();
  found.push(...(await violations(page, `${theme}, a link that is not understood`)));
  return found;
}

export default async function journey(stage) {
  const found = [];
  // There is something to undo, whichever journeys went before.
  await stage.api.patch(SINGLES.first + 12, { status: "paused" }, "journey: to be undone");
  for (const theme of ["light", "dark"]) {
    const page = await stage.open("/ui/", { colorScheme: theme, reducedMotion: "reduce" });
    await withOrders(page);
    for (const [at, there] of PAGES) {
      await page.goto(stage.node.url + at);
      await there(page);
      await loaded(page);
      found.push(...(await violations(page, `${theme} ${at}`)));
    }
    found.push(...(await dialogs(page, theme)));
  }
  sure(found.length === 0, `violations:\n${found.join("\n")}`);
}
