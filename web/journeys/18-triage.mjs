import { find, grid, matched, ready, rowOf, rows, sortById } from "./lib/grid.mjs";
import { SINGLES } from "./lib/budgets.mjs";
import { becomes, same, sure, until } from "./lib/wait.mjs";

export const title =
  "from row to row: names are links, Back leads to the same place, j and k to the neighbours";

const SCROLL = 30_000;
const scroller = (page) => grid(page).locator(".grid-view");
const scrolled = (page) => scroller(page).evaluate((element) => element.scrollTop);
const focusedId = (page) =>
  page.evaluate(() => {
    const row = document.activeElement.closest('[role="row"]');
    return row?.querySelector('[data-column="id"]')?.textContent ?? null;
  });
const heading = (page) => page.getByRole("heading", { level: 1 });

/** The row in the middle of the view. */
async function middle(page) {
  const shown = await rows(page);
  return shown[Math.floor(shown.length / 2)].cells;
}

async function links(stage, page) {
  const { Id: id, Budget: name } = await middle(page);
  const link = (await rowOf(page, id)).getByRole("link");
  same(await link.getAttribute("href"), `/ui/campaign/${id}`, "address of a name");
  const [other] = await Promise.all([
    page.context().waitForEvent("page"),
    link.click({ modifiers: ["ControlOrMeta"] }),
  ]);
  await heading(other).filter({ hasText: name }).waitFor();
  same(await other.getByRole("navigation", { name: "In the list" }).count(), 0, "neighbours without a list");
  await other.close();
  const [third] = await Promise.all([page.context().waitForEvent("page"), link.click({ button: "middle" })]);
  await heading(third).filter({ hasText: name }).waitFor();
  await third.close();
  sure(page.url().includes("/ui/?"), "the list is where it was");
}

async function thereAndBack(page) {
  await scroller(page).evaluate((element, top) => void (element.scrollTop = top), SCROLL);
  // The row of the tab stop stays in the document, wherever the view is: the last one tells.
  await until("rows of that place", async () => (await rows(page)).at(-1).index > 500);
  const top = await scrolled(page);
  const { Id: id, Budget: name } = await middle(page);
  await (await rowOf(page, id)).getByRole("link").click();
  await heading(page).filter({ hasText: name }).waitFor();
  await page.getByRole("button", { name: "Back" }).click();
  await ready(page);
  await becomes(() => scrolled(page), top, "how far the list is scrolled");
  await becomes(() => focusedId(page), id, "the row that has the focus");
  return { id, top };
}

/** Two further by j, one back by k: the list then is at the one that was looked at last. */
async function neighbours(page, from) {
  const at = (await rows(page)).findIndex(({ cells }) => cells.Id === from);
  const [next, afterNext] = (await rows(page)).slice(at + 1, at + 3).map(({ cells }) => cells.Id);
  await page.keyboard.press("Enter");
  const place = page.getByRole("navigation", { name: "In the list" });
  // The address is there before the page is: its links tell what the keys lead to.
  const leadsOn = (word, id) =>
    becomes(
      () => place.getByRole("link", { name: word }).getAttribute("href"),
      `/ui/campaign/${id}`,
      `where ${word} leads`,
    );
  await leadsOn(/^Next/, next);
  await page.keyboard.press("j");
  await until("the next campaign", () => page.url().endsWith(`/campaign/${next}`));
  await leadsOn(/^Next/, afterNext);
  await page.keyboard.press("j");
  await until("the one after it", () => page.url().endsWith(`/campaign/${afterNext}`));
  await leadsOn(/^Previous/, next);
  await page.keyboard.press("k");
  await until("the one before it", () => page.url().endsWith(`/campaign/${next}`));
  await page.reload();
  await leadsOn(/^Next/, afterNext);
  await place.getByRole("link", { name: /^Next/ }).click();
  await until("the next one after a reload", () => page.url().endsWith(`/campaign/${afterNext}`));
  await page.getByRole("button", { name: "Back" }).click();
  await ready(page);
  await becomes(() => focusedId(page), afterNext, "the row that was looked at last");
}

export default async function journey(stage) {
  const page = await stage.open("/ui/");
  await ready(page);
  await sortById(page);
  await until("the order in the address", () => page.url().includes("sort=id"));
  const all = await matched(page);
  await links(stage, page);
  const { id, top } = await thereAndBack(page);
  await neighbours(page, id);
  // Another page between, and a reload: the place is kept with the address.
  await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "Audit log" }).click();
  await page.getByRole("heading", { name: "Audit log" }).waitFor();
  await page.goBack();
  await ready(page, all);
  await until("the same place", async () => Math.abs((await scrolled(page)) - top) < 200);
  await page.reload();
  await ready(page, all);
  await until("the same place after a reload", async () => Math.abs((await scrolled(page)) - top) < 200);
  // A row that the list has no longer: its place, and no error.
  await find(page, SINGLES.name, SINGLES.count);
  await becomes(async () => (await rows(page)).length, SINGLES.count, "rows of a short list");
}
