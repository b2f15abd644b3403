import { grid, header, loaded, ready, titles } from "./lib/grid.mjs";
import { becomes, same, sure, until } from "./lib/wait.mjs";

export const title =
  "390 to 1440 pixels: default columns fit, headings follow, no table of another page is cut";

const WIDE = { width: 1280, height: 1000 };
const NARROW = { width: 800, height: 1000 };

async function list(stage) {
  const page = await stage.open("/ui/", NARROW);
  await ready(page);
  const shown = await titles(page);
  for (const gone of ["Pace", "Spend /min"]) sure(!shown.includes(gone), `${gone} gives way`);
  for (const name of ["Status", "Spent", "Limit", "Remaining"]) {
    const box = await header(page, name).boundingBox();
    sure(box.x >= 0 && box.x + box.width <= NARROW.width, `${name} is seen without scrolling`);
  }
  await page.getByText("Columns", { exact: true }).click();
  await page.getByText(/Pace and Spend \/min are left out/).waitFor();
  await page.keyboard.press("Escape");

  // The view is as it was: a wider window shows all of it again.
  await page.setViewportSize(WIDE);
  await until("the pace again", async () => (await titles(page)).includes("Pace"));
  same(new URL(page.url()).search, "", "an address without columns");
  sure((await grid(page).count()) === 1, "the same grid");
}

/** How much of the tables' boxes is out of sight, to the right. */
const hidden = (page) =>
  page.evaluate(() =>
    [...document.querySelectorAll("main :is(.scroll, .scroll-wide)")]
      .map((box) => box.scrollWidth - box.clientWidth)
      .filter((pixels) => pixels > 1),
  );

/** At 1440 and 1280 all default columns; where there is less room, a bar to scroll by, and headings that follow. */
async function wideList(stage) {
  const page = await stage.open("/ui/", { width: 1440, height: 1000 });
  await ready(page);
  const aside = () =>
    page.evaluate(() => {
      const view = document.querySelector(".grid-view");
      return view.scrollWidth - view.clientWidth;
    });
  for (const width of [1440, 1280]) {
    await page.setViewportSize({ width, height: 1000 });
    await becomes(aside, 0, `pixels of the default columns that are out of sight at ${width}`);
  }
  await page.setViewportSize({ width: 1024, height: 1000 });
  await until("columns out of sight at 1024", async () => (await aside()) > 0);
  await page.evaluate(() => (document.querySelector(".grid-view").scrollLeft = 10_000));
  const right = (cell) => cell.evaluate((element) => element.getBoundingClientRect().right);
  const today = await right(header(page, "Today"));
  sure(today <= 1024, `Today is in sight: its right edge is at ${today}`);
  const cells = page.locator('.grid-row:not([hidden]) > [data-column="day_spent"]');
  await becomes(() => right(cells.first()), today, "the cells of Today are below their heading");
}

/** Sessions in all states, with as many digits as in real life: what may be done is in sight, and no word stands letter by letter. */
async function sessions(stage, width) {
  const page = await stage.open("/ui/icon.svg", { width, height: 1000 });
  const { sessions } = await stage.api.get("/fix/sessions");
  const made = ["waiting", "logged_on", "resending", "out_of_schedule"].map((state, i) => ({
    ...sessions[0],
    ...{ state, name: `CLIENT${i}`, next_out: 182_734, next_in: 182_650, messages_in: 182_649 },
    ...{ messages_out: 182_733, latency_p50_us: 4_210, latency_p99_us: 35_100 },
    ...{ last_in_ms: Date.now(), last_out_ms: Date.now(), address: "10.20.30.40:51234" },
  }));
  await page.route("**/v1/fix/sessions", (route) => route.fulfill({ json: { sessions: made } }));
  await page.goto(`${stage.node.url}/ui/fix`);
  await page.getByRole("button", { name: "Log out…" }).first().waitFor();
  const table = page.getByRole("region", { name: "Sessions, as a table" });
  for (const name of ["Messages", "Log out…", "Resend…", "Set numbers…", "Reset…"]) {
    const box = await table.getByRole("button", { name }).first().boundingBox();
    sure(box.x >= 0 && box.x + box.width <= width, `${name} is in sight at ${width}`);
  }
  const narrowest = await table
    .locator("[data-title]")
    .evaluateAll((cells) => Math.min(...cells.map((cell) => cell.getBoundingClientRect().width)));
  sure(narrowest >= 30, `the narrowest cell at ${width} has ${narrowest} pixels`);
  if (stage.shots !== undefined) await page.screenshot({ path: `${stage.shots}/fix-${width}.png` });
  // The page goes on asking until it is closed.
  await page.unrouteAll({ behavior: "ignoreErrors" });
}

export default async function journey(stage) {
  await list(stage);
  await wideList(stage);
  for (const width of [390, 1024, 1280, 1440]) await sessions(stage, width);
  for (const size of [NARROW, WIDE])
    for (const [at, there] of [
      ["/ui/costs", (page) => page.getByRole("rowheader").first().waitFor()],
      ["/ui/fix", (page) => page.getByText("GATE → CLIENT1").waitFor()],
    ]) {
      const page = await stage.open(at, size);
      await there(page);
      await loaded(page);
      await becomes(() => hidden(page), [], `${at} at ${size.width}: nothing of its tables is cut`);
    }
}
