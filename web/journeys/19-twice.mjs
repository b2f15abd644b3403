import { deed, find, ready, selection, tick } from "./lib/grid.mjs";
import { SINGLES } from "./lib/budgets.mjs";
import { becomes, same, until } from "./lib/wait.mjs";

export const title = "double clicks, a cut answer, two people at once, undo twice: each deed is done once";

/** Those that no other journey pauses. */
const IDS = [SINGLES.first + 16, SINGLES.first + 17, SINGLES.first + 18];

async function choose(page, action, ids) {
  await tick(page, ids);
  await selection(page)
    .getByRole("button", { name: new RegExp(`^${action}`) })
    .click();
  const dialog = page.getByRole("dialog", { name: new RegExp(`^${action} ${ids.length}`) });
  await dialog.getByText(new RegExp(`${ids.length} will change`)).waitFor();
  return dialog;
}

/** Both clicks come before the first one's answer: what follows a quick answer would be under the second one. */
async function pressTwice(page, path, twice) {
  let clicked;
  const both = new Promise((done) => (clicked = done));
  await page.route(path, async (route) => {
    if (!route.request().postDataJSON().dry_run) await both;
    await route.continue();
  });
  await twice.dblclick({ noWaitAfter: true });
  clicked();
}

const button = (dialog, name) => dialog.getByRole("button", { name, exact: true });
const statuses = async (api) =>
  (await Promise.all(IDS.map((id) => api.budget(id)))).map(({ status }) => status === "paused");
const records = async (api, why) => (await api.audit("max=50")).filter((record) => record.why === why);

async function doubleClick(page, api) {
  const why = "journey: pressed twice";
  const dialog = await choose(page, "Pause", IDS);
  await dialog.getByLabel(/^Reason/).fill(why);
  await pressTwice(page, "**/v1/bulk", button(dialog, "Pause"));
  await deed(page)
    .getByText(/Pause: 3 changed/)
    .waitFor();
  await becomes(async () => (await records(api, why)).length, 1, "records of a double click");
  await becomes(() => statuses(api), [true, true, true], "all of them paused");
}

/** The answer is lost on its way, and the deed is done. Pressed again it is not done again: the first answer comes. */
async function cutAnswer(page, api) {
  const why = "journey: the answer was cut";
  let cuts = 0;
  await page.route("**/v1/bulk", async (route) => {
    if (route.request().postDataJSON().dry_run || cuts > 0) return route.continue();
    cuts += 1;
    await route.fetch();
    await route.abort("connectionreset");
  });
  const dialog = await choose(page, "Resume", IDS);
  await dialog.getByLabel(/^Reason/).fill(why);
  await button(dialog, "Resume").click();
  await dialog.getByText(/the node does not answer/).waitFor();
  await becomes(() => statuses(api), [false, false, false], "what the cut request did");
  await button(dialog, "Resume").click();
  await deed(page)
    .getByText(/Resume: 3 changed/)
    .waitFor();
  same((await records(api, why)).length, 1, "records of a request that was sent twice");
  await page.unroute("**/v1/bulk");
}

/** One undoes a pause while another has resumed one of the three; then the first one's undo is undone by both. */
async function twoPeople(stage, page, api) {
  const why = "journey: paused by one";
  const dialog = await choose(page, "Pause", IDS);
  await dialog.getByLabel(/^Reason/).fill(why);
  await button(dialog, "Pause").click();
  await deed(page)
    .getByText(/Pause: 3 changed/)
    .waitFor();
  await api.patch(IDS[0], { status: "active" }, "journey: resumed by another");

  const [other, third] = [await stage.open("/ui/audit"), await stage.open("/ui/audit")];
  const asked = [];
  for (const one of [other, third]) {
    const row = one.getByRole("row").filter({ hasText: why });
    await row.getByRole("button", { name: /^Undo/ }).click();
    const undo = one.getByRole("dialog", { name: "Undo pause of 3 budgets" });
    await undo.getByText(/2 will be put back, 1 were changed since and stay/).waitFor();
    await undo.getByLabel(/^Reason/).fill("journey: taken back");
    asked.push(undo);
  }
  const [mine, theirs] = asked;
  await pressTwice(other, "**/undo", button(mine, "Undo"));
  await mine.waitFor({ state: "hidden" });
  await other
    .getByRole("paragraph")
    .filter({ hasText: /^Undone for 2; 1 had changed since and stay/ })
    .waitFor();
  await button(theirs, "Undo").click();
  await theirs.getByText(/undone already/).waitFor();
  await becomes(async () => (await records(api, "journey: taken back")).length, 1, "records of the undo");
  await until("all of them active", async () => (await statuses(api)).every((paused) => !paused));
}

export default async function journey(stage) {
  const page = await stage.open();
  await ready(page);
  await find(page, SINGLES.name, SINGLES.count);
  await doubleClick(page, stage.api);
  await cutAnswer(page, stage.api);
  await twoPeople(stage, page, stage.api);
}
