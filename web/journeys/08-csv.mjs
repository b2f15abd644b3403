import { readFileSync } from "node:fs";
import { find, ready, sortById, titles } from "./lib/grid.mjs";
import { GROUP } from "./lib/budgets.mjs";
import { same, sure, until } from "./lib/wait.mjs";

export const title = "the CSV of the view is what the API says";

/** Lines of RFC 4180 with quoted cells, as objects. */
function parse(text) {
  const [head, ...lines] = text
    .trim()
    .split("\r\n")
    .map((line) =>
      [...line.matchAll(/("(?:[^"]|"")*"|[^,]*)(?:,|$)/g)]
        .map(([, cell]) => cell.replace(/^"|"$/g, "").replaceAll('""', '"'))
        .slice(0, -1),
    );
  return lines.map((cells) => Object.fromEntries(head.map((name, i) => [name, cells[i]])));
}

async function download(page) {
  const [saved] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name: "CSV" }).click(),
  ]);
  sure(/\.csv$/.test(saved.suggestedFilename()), `a name that ends in .csv: ${saved.suggestedFilename()}`);
  return parse(readFileSync(await saved.path(), "utf8"));
}

export default async function journey(stage) {
  const { api } = stage;
  const page = await stage.open();
  await ready(page);
  await find(page, GROUP.name, GROUP.count);
  await sortById(page);
  await until("a column of what is spent", async () => (await titles(page)).includes("Spent"));

  const before = new Map((await api.budgets(`q=${GROUP.name}`)).map((budget) => [budget.id, budget]));
  await until("figures that are later than the answer", figuresAfter(page, Date.now()));
  const lines = await download(page);
  const after = (await api.budgets(`q=${GROUP.name}`)).sort((a, b) => Number(a.id) - Number(b.id));

  same(
    lines.map(({ id }) => id),
    after.map(({ id }) => id),
    "ids in the order of the view",
  );
  for (const [i, budget] of after.entries()) {
    const line = lines[i];
    same([line.name, line.unit, line.limit], [budget.name, budget.unit, budget.limit], `budget ${budget.id}`);
    const spent = Number(line.spent);
    sure(
      spent >= Number(before.get(budget.id).spent) && spent <= Number(budget.spent),
      `budget ${budget.id} spent ${spent}, before ${before.get(budget.id).spent}, after ${budget.spent}`,
    );
  }
}

const DAY_MS = 86_400_000;

/** True once the page's figures are of this moment or a later one: a frame that was on its way when the API answered is not. */
function figuresAfter(page, moment) {
  return async () => {
    const [, hours, minutes, seconds] = (await page.getByRole("banner").innerText()).match(
      /as of (\d+):(\d+):([\d.]+)/,
    );
    const asOf = (Number(hours) * 60 + Number(minutes)) * 60_000 + Number(seconds) * 1_000;
    // The page tells the time of day alone, in UTC: midnight may lie between.
    const ahead = (asOf - (moment % DAY_MS) + 1.5 * DAY_MS) % DAY_MS;
    return ahead >= DAY_MS / 2;
  };
}
