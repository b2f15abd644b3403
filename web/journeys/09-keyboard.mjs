import { deed, find, ready, rows, selected } from "./lib/grid.mjs";
import { SINGLES } from "./lib/budgets.mjs";
import { becomes, sure, until } from "./lib/wait.mjs";

export const title = "no mouse: reach the grid, move, select, pause, open, sort, all by keys";

const TABS_MOST = 60;

/** What has the focus: its role, its place in the grid, its name. */
const focused = (page) =>
  page.evaluate(() => {
    const element = document.activeElement;
    return {
      role: element.getAttribute("role") ?? element.tagName.toLowerCase(),
      row: Number(element.closest('[role="row"]')?.getAttribute("aria-rowindex") ?? 0),
      column: Number(element.getAttribute("aria-colindex") ?? 0),
      name: element.getAttribute("aria-label") ?? element.textContent,
    };
  });

/** Tabs on until the focus is as wanted. */
async function tabTo(page, what, wanted) {
  for (let i = 0; i < TABS_MOST; i += 1) {
    await page.keyboard.press("Tab");
    const found = await focused(page);
    if (wanted(found)) return found;
  }
  throw new Error(`${what} is not reached with ${TABS_MOST} tabs`);
}

const press = async (page, ...keys) => {
  for (const key of keys) await page.keyboard.press(key);
};

async function moveAbout(page) {
  const start = await tabTo(page, "a cell of the grid", ({ role }) => role === "gridcell");
  await press(page, "ArrowDown", "ArrowDown", "ArrowRight");
  const place = async () => {
    const { row, column } = await focused(page);
    return [row, column];
  };
  await becomes(place, [start.row + 2, start.column + 1], "cell after two down and one right");
  await press(page, "End");
  await until("the last column", async () => (await focused(page)).column > start.column + 1);
  await press(page, "Control+End");
  await becomes(async () => (await focused(page)).row, SINGLES.count + 1, "row after Ctrl End");
  await press(page, "Control+Home");
  await becomes(async () => (await focused(page)).row, 2, "row after Ctrl Home");
}

async function selectAndPause(page, why) {
  await press(page, "Space", "ArrowDown", "ArrowDown", "Shift+Space");
  await selected(page, 3);
  await press(page, "Shift+Tab");
  let found = await focused(page);
  for (let i = 0; i < TABS_MOST && !/^Pause/.test(found.name ?? ""); i += 1) {
    await press(page, "Shift+Tab");
    found = await focused(page);
  }
  sure(/^Pause/.test(found.name), `the button to pause is reached: ${found.name}`);
  await press(page, "Enter");
  await page.getByRole("dialog", { name: /^Pause 3/ }).waitFor();
  await becomes(async () => (await focused(page)).role, "input", "what has the focus in the dialog");
  await page.getByText(/3 will change/).waitFor();
  await page.keyboard.type(why);
  await press(page, "Enter");
  await deed(page)
    .getByText(/Pause: 3 changed/)
    .waitFor();
}

export default async function journey(stage) {
  const { api } = stage;
  const page = await stage.open();
  await ready(page);
  await press(page, "/");
  await page.keyboard.type(SINGLES.name);
  await until(`${SINGLES.count} rows`, async () => (await rows(page)).length === SINGLES.count);
  await moveAbout(page);
  await selectAndPause(page, "journey: by keys alone");
  const paused = await until("three paused budgets", async () => {
    const found = await api.budgets(`q=${SINGLES.name}&filter=status:paused`);
    return found.length === 3 && found;
  });

  await tabTo(page, "a cell of the grid", ({ role }) => role === "gridcell");
  await press(page, "Control+Home", "ArrowRight", "ArrowUp");
  await becomes(async () => (await focused(page)).role, "columnheader", "what is above the first row");
  await press(page, "Enter");
  await until("rows sorted by a key", async () => page.url().includes("sort="));
  await press(page, "ArrowDown", "Enter");
  await page.getByRole("heading", { level: 1 }).filter({ hasText: SINGLES.name }).waitFor();
  await tabTo(page, "the way back", ({ name }) => name === "Back");
  await press(page, "Enter");
  await ready(page, SINGLES.count);
  await press(page, "?");
  await page.getByRole("dialog", { name: "Keys" }).waitFor();
  await press(page, "Escape");
  await page.getByRole("dialog", { name: "Keys" }).waitFor({ state: "hidden" });
  for (const { id } of paused) await api.patch(id, { status: "active" }, "journey: as it was");
}
