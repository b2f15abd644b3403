import { GROUP } from "./lib/budgets.mjs";
import { grid, matched, ready, selectAll, selection } from "./lib/grid.mjs";
import { becomes, same, sure, until } from "./lib/wait.mjs";

export const title = "links made by hand: what is not understood is said, guesses lead on, nowhere is 404";

/** Three slips: none of them may end in a change of all budgets. */
async function slips(stage, all) {
  const page = await stage.open("/ui/?f=foo:bar;pace:zz&sort=nope");
  await ready(page, all);
  const chip = page.getByText("3 parts of this link are not understood");
  await chip.click();
  for (const text of ["foo:bar", "pace:zz", "nope"]) await page.getByText(text, { exact: true }).waitFor();
  await page.getByText(/Expected a range, as pace:0\.5\.\.2/).waitFor();
  await page.keyboard.press("Escape");
  await selectAll(page, all);
  for (const name of [/^Pause/, /^Resume/, /^Change limits/])
    await becomes(
      () => selection(page).getByRole("button", { name }).isDisabled(),
      true,
      `${name} is disabled`,
    );
  await becomes(() => page.getByRole("button", { name: "CSV" }).isDisabled(), true, "no CSV");
  if (stage.shots !== undefined) await page.screenshot({ path: `${stage.shots}/slips.png` });

  // A filter of the same column stands in the place of the slip, and the rest stays said.
  await page.goto(`${stage.node.url}/ui/?f=name:~${GROUP.name};pace:zz`);
  await page.getByText("1 filter of this link is not understood").waitFor();
  await page.getByRole("button", { name: "remove what is not understood" }).click();
  await until("an address without it", () => !page.url().includes("zz"));
  await page.getByText(/not understood/).waitFor({ state: "hidden" });
  await becomes(() => page.getByRole("button", { name: "CSV" }).isDisabled(), false, "a CSV again");
}

async function addresses(stage) {
  const at = (path) => fetch(stage.node.url + path, { redirect: "manual" });
  const guessed = await at(`/ui/campaigns/${GROUP.first}`);
  same(
    [guessed.status, guessed.headers.get("location")],
    [307, `/ui/campaign/${GROUP.first}`],
    "where the guess of everybody leads",
  );
  const list = await at("/ui/campaigns?f=unit%3AUSD");
  same([list.status, list.headers.get("location")], [307, "/ui/?f=unit%3AUSD"], "the list, with its view");
  for (const there of ["/ui/", `/ui/campaign/${GROUP.first}`, "/ui/engine", "/ui/costs", "/ui/audit"])
    same((await at(there)).status, 200, there);
  for (const nowhere of ["/ui/nowhere", "/ui/campaign/a%20b", "/ui/engine/1", "/ui/assets/gone.js"])
    same((await at(nowhere)).status, 404, nowhere);

  const page = await stage.open(`/ui/campaigns/${GROUP.first}`);
  await page.getByRole("heading", { level: 1, name: `${GROUP.name} 001` }).waitFor();
  await page.goto(`${stage.node.url}/ui/nowhere`);
  await page.getByRole("heading", { name: "There is no such page" }).waitFor();
  await page.getByRole("link", { name: "All budgets" }).click();
  await ready(page);
}

/** A page of somebody else can neither show this one in a frame nor ask it anything. */
async function strangers(stage) {
  const page = await stage.open("/ui/");
  await ready(page);
  const { headers } = await fetch(`${stage.node.url}/ui/`);
  sure(/frame-ancestors 'none'/.test(headers.get("content-security-policy")), "the policy forbids frames");
  const stranger = await page.context().newPage();
  await stranger.setContent(`<iframe id="f" src="${stage.node.url}/ui/"></iframe>`);
  const frame = await (await stranger.waitForSelector("#f")).contentFrame();
  await until("a frame that the browser refused", async () => /^chrome-error:/.test(frame.url()));
  const asked = await stranger.evaluate(async (url) => {
    const send = (method, body) =>
      fetch(`${url}/v1/bulk`, { method, body, headers: { "Content-Type": "text/plain" } }).then(
        ({ status }) => status,
        () => "refused",
      );
    const socket = new Promise((done) => {
      const live = new WebSocket(`${url.replace("http", "ws")}/v1/live`, "weir.live.2");
      live.onopen = () => done("open");
      live.onerror = () => done("refused");
    });
    return [await send("POST", "{}"), await socket];
  }, stage.node.url);
  same(asked, ["refused", "refused"], "what a stranger's page gets");
  sure((await grid(page).count()) === 1, "the page itself is as it was");
}

export default async function journey(stage) {
  const { matched: all } = await stage.api.get("/budgets?max=1");
  await slips(stage, all);
  await addresses(stage);
  await strangers(stage);
  const page = await stage.open("/ui/?f=;;:;%E0%A4%A&cols=nothing&order=sideways");
  await ready(page);
  await becomes(() => matched(page), all, "rows of a link full of nothing");
}
