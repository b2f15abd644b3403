import { grid, header, loaded, ready, titles } from "./lib/grid.mjs";
import { becomes, same, sure, until } from "./lib/wait.mjs";

export const title = "800 pixels: the sums stay, the curve goes, and no table of another page is cut";

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

export default async function journey(stage) {
  await list(stage);
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
