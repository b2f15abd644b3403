import { ready } from "./lib/grid.mjs";
import { same } from "./lib/wait.mjs";

export const title =
  "every link of the menu and of its pages opens cold and by reload: 200, and its own heading";

const heading = (page, name) => page.getByRole("heading", { level: 1, name, exact: true }).waitFor();

/** Where the menu and a page's own links to other pages lead: `[address, title]`. */
async function links(page) {
  const of = (found) =>
    found.evaluateAll((all) => all.map((link) => [link.getAttribute("href"), link.textContent.trim()]));
  const menu = await of(page.getByRole("navigation", { name: "Pages" }).getByRole("link"));
  await page.getByRole("link", { name: "Engine room" }).click();
  const behind = page.getByRole("link", { name: "CPU cost" });
  await behind.waitFor();
  return [...menu, ...(await of(behind))];
}

export default async function journey(stage) {
  const page = await stage.open();
  await ready(page);
  const found = await links(page);
  same(
    found.map(([, name]) => name),
    ["Budgets", "Reports", "Engine room", "Vault", "FIX sessions", "Orders", "Audit log", "CPU cost"],
    "links",
  );
  for (const [at, name] of found) {
    const cold = await stage.open("/ui/icon.svg");
    same((await cold.goto(stage.node.url + at)).status(), 200, `${at}, cold`);
    await heading(cold, name);
    same((await cold.reload()).status(), 200, `${at}, reloaded`);
    await heading(cold, name);
    same(await cold.title(), `${name} · Weir`, `the title of ${at}`);
    await cold.context().close();
  }
}
