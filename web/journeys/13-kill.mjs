import { SINGLES, startLoads } from "./lib/budgets.mjs";
import { column, find, freshness, grid, matched, ready } from "./lib/grid.mjs";
import { becomes, same, sure, until } from "./lib/wait.mjs";

export const title = "kill -9: old figures stay, greyed and said to be old; the node comes back, so do they";
export const needsProcess = true;

const PAUSED = SINGLES.first + 9;
/** Of a status: ids are quiet from the start. */
const colour = (page) =>
  grid(page)
    .getByRole("gridcell")
    .nth(3)
    .evaluate((cell) => {
      const style = getComputedStyle(cell);
      let [opacity, element] = [1, cell];
      for (; element !== null; element = element.parentElement)
        opacity *= Number(getComputedStyle(element).opacity);
      return `${style.color} ${opacity} ${style.filter}`;
    });

export default async function journey(stage) {
  const { node, api } = stage;
  await api.patch(PAUSED, { status: "paused" }, "journey: outlives a crash");
  const page = await stage.open();
  await ready(page);
  await find(page, SINGLES.name, SINGLES.count);
  const [names, { run }] = [await column(page, "Budget"), await api.get("/node")];
  // A busy machine may be late for a moment, and then it looks late.
  const freshColour = await until("the colour of fresh figures", async () => {
    const [before, found, after] = [await freshness(page), await colour(page), await freshness(page)];
    return before === "fresh" && after === "fresh" && found;
  });

  await node.kill();
  await page.getByRole("banner").getByText("disconnected").waitFor();
  // Red may follow before anybody has looked at amber.
  await until("amber", async () => ["late", "stale"].includes(await freshness(page)));
  const shown = async () => (await column(page, "Budget")).toSorted();
  await becomes(shown, names.toSorted(), "rows while the node is gone");
  await until("red", async () => (await freshness(page)) === "stale");
  await until("old figures that look old", async () => (await colour(page)) !== freshColour);

  const began = performance.now();
  await node.start();
  const recovered = performance.now();
  await until("fresh figures", async () => (await freshness(page)) === "fresh");
  const fresh = performance.now();
  stage.note(
    `recovery ${((recovered - began) / 1000).toFixed(1)} s, fresh ${((fresh - recovered) / 1000).toFixed(1)} s after it`,
  );
  await node.endLoads();
  startLoads(node);

  await becomes(() => matched(page), SINGLES.count, "rows after the restart");
  await becomes(shown, names.toSorted(), "names after the restart");
  sure((await api.get("/node")).run !== run, "the node is another run");
  same((await api.budget(PAUSED)).status, "paused", "status of what was paused before the crash");
  const [record] = await api.audit(`budget=${PAUSED}&max=1`);
  same(record.why, "journey: outlives a crash", "the audit log after the crash");
  await api.patch(PAUSED, { status: "active" }, "journey: as it was");
  await until("its row active again", async () => {
    const cells = await column(page, "Status");
    return cells.every((text) => !text.includes("paused"));
  });
}
