// The grid of budgets as assistive technology sees it: roles, names and indices, never classes.
import { becomes, same, sure, until } from "./wait.mjs";

export const grid = (page) => page.getByRole("grid", { name: "Budgets" });
/** A column's header; `title` is all of its name, or an expression that finds it. */
export const header = (page, title) => grid(page).getByRole("columnheader", { name: title, exact: true });
export const freshness = (page) => page.evaluate(() => document.documentElement.dataset.fresh);
export const search = (page) => page.getByRole("searchbox");

/** Rows as they are drawn, top first: `{ index, selected, cells: { [title]: text } }`. */
export const rows = (page) =>
  page.evaluate(() => {
    const element = document.querySelector('[role="grid"]');
    const titles = new Map(
      [...element.querySelectorAll('[role="columnheader"]')].map((head) => [
        head.getAttribute("aria-colindex"),
        head.querySelector("span")?.textContent ?? "tick",
      ]),
    );
    const shown = [...element.querySelectorAll('[role="row"]')].filter(
      (row) => !row.hidden && row.querySelector('[role="gridcell"]') !== null,
    );
    return shown
      .map((row) => ({
        index: Number(row.getAttribute("aria-rowindex")),
        selected: row.getAttribute("aria-selected") === "true",
        cells: Object.fromEntries(
          [...row.querySelectorAll('[role="gridcell"]')].map((cell) => [
            titles.get(cell.getAttribute("aria-colindex")),
            cell.textContent,
          ]),
        ),
      }))
      .sort((a, b) => a.index - b.index);
  });

export const column = async (page, title) => (await rows(page)).map(({ cells }) => cells[title]);
/** Titles of the columns, without that of the ticks, which tells a number. */
export const titles = async (page) =>
  (await grid(page).locator('[role="columnheader"]:not([aria-colindex="1"])').allInnerTexts()).map((text) =>
    text.replace(/\s*[↑↓]\d*$/u, "").trim(),
  );
/** Rows that match. 0 until the page has added up what it got first, a moment after it has drawn it. */
export const matched = async (page) => Number(await grid(page).getAttribute("aria-rowcount")) - 1;

/** The drawn row of a budget. */
export async function rowOf(page, id) {
  const row = grid(page)
    .getByRole("row")
    .filter({ has: page.locator(`a[href$="/campaign/${id}"]`) });
  await row.waitFor();
  return row;
}

/** The grid is there and has counted its rows, this many if given, and its figures are fresh. */
export async function ready(page, count) {
  await until("a grid with rows", async () => (await rows(page)).length > 0);
  if (count === undefined) await until("rows that are counted", async () => (await matched(page)) > 0);
  else await becomes(() => matched(page), count, "matching rows");
  await until("fresh figures", async () => (await freshness(page)) === "fresh");
}

/** Types into the search and waits for so many rows. */
export async function find(page, text, count) {
  await search(page).fill(text);
  await becomes(() => matched(page), count, `rows for “${text}”`);
}

/** Nothing of the page is still being loaded. */
export const loaded = (page) =>
  until("a page without placeholders", async () => (await page.locator(".loading").count()) === 0);

/** Says how many rows are selected, and does things to them. */
export const selection = (page) => page.getByRole("region", { name: "Selection" });
export const selected = (page, count) =>
  selection(page)
    .getByText(new RegExp(`^${written(String(count)).source} selected$`, "u"))
    .waitFor();
/** Sorts by id, the one order in which rows never move: in any other one may come under a click that was meant for another. */
export async function sortById(page) {
  const sort = () => header(page, "Id").getAttribute("aria-sort");
  if ((await sort()) === "ascending") return;
  await header(page, "Id").click();
  await until("an order by id", async () => (await sort()) === "ascending");
}
/** Ticks rows, in an order that stands still. */
export async function tick(page, ids) {
  await sortById(page);
  for (const id of ids) await (await rowOf(page, id)).getByRole("gridcell").first().click();
  await selected(page, ids.length);
}
/** Says what the last bulk change did. */
export const deed = (page) => page.getByRole("region", { name: "What was done" });

/** Selects every row that matches, by the tick in the header. */
export async function selectAll(page, count) {
  await grid(page)
    .getByRole("columnheader", { name: /select all/ })
    .click();
  await selected(page, count);
}

/** Numbers of a column as shown: "1,234.50" -> 1234.5; what is none (–) is null. */
export function figure(text) {
  const match = /-?[\d,.\u202f\s]*\d/u.exec((text ?? "").replace("−", "-"));
  return match === null ? null : Number(match[0].replace(/[,\u202f\s]/gu, ""));
}

/** "60000.50" as a page writes it, however it groups thousands. */
export const written = (amount) =>
  new RegExp(amount.replace(".", "\\.").replace(/\d(?=(\d{3})+(?!\d))/g, "$&[\\s,\u202f]?"), "u");

export function sorted(values, compare, what) {
  sure(values.length > 1, `${what}: too few rows to tell`);
  same(values, [...values].sort(compare), what);
}
