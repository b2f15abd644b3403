// The dashboard in a browser, against a real node with traffic: one journey after the other, as people go them.
//
//   WEIR=path/of/weir node journeys/run.mjs [word ...]     only journeys whose file name holds one of the words
//
// CHROMIUM is the browser's path, else `chromium` is looked for. SHOTS=FOLDER keeps the screenshots of the last journey.
// SLOW=4 gives each page a quarter of a processor and its figures late: whatever a journey reads without waiting for it, it then misses.
// NODE_URL=http://127.0.0.1:7780 takes a node that runs already (as the mock of web/mock): journeys that stop it, or start
// another, are left out. What a failed journey leaves (picture, errors of the page, the node's log) stays in a folder that is named.
import { mkdirSync, mkdtempSync, readdirSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Api } from "./lib/api.mjs";
import { launch, watch } from "./lib/browser.mjs";
import { budgetLines, startLoads } from "./lib/budgets.mjs";
import { Node } from "./lib/node.mjs";
import { slowDown } from "./lib/slow.mjs";
import { PATIENCE_MS } from "./lib/wait.mjs";

const { WEIR, NODE_URL, SHOTS, SLOW = "1" } = process.env;
/** None comes near it: it ends what hangs. */
const JOURNEY_MS = 900_000;

/** What one journey plays on. */
class Stage {
  pages = [];
  notes = [];
  shots = SHOTS;

  constructor(browser, node) {
    this.browser = browser;
    this.node = node;
    this.weir = WEIR;
    this.api = new Api(node);
  }

  /** A page in a browser profile of its own; `at`: below the node's address, or a whole address. */
  async open(at = "/ui/", { width = 1280, height = 1000, ...options } = {}) {
    const context = await this.browser.newContext({
      viewport: { width, height },
      acceptDownloads: true,
      ...options,
    });
    context.setDefaultTimeout(PATIENCE_MS);
    const page = await context.newPage();
    this.pages.push({ page, errors: watch(page) });
    await slowDown(page, Number(SLOW));
    await page.goto(at.startsWith("http") ? at : this.node.url + at);
    return page;
  }

  /** A figure worth telling beside the journey's time. */
  note(text) {
    this.notes.push(text);
  }

  errors() {
    return this.pages.flatMap(({ errors }) => errors);
  }

  async close() {
    await Promise.all(this.pages.map(({ page }) => page.context().close()));
  }
}

async function keepEvidence(folder, name, stage, error) {
  const at = join(folder, name);
  mkdirSync(at, { recursive: true });
  const texts = await Promise.all(
    stage.pages.map(async ({ page }, i) => {
      await page.screenshot({ path: join(at, `page-${i}.png`), timeout: 5_000 }).catch(() => {});
      return `${page.url()}\n${await page
        .locator("body")
        .innerText({ timeout: 2_000 })
        .catch(() => "(no text)")}`;
    }),
  );
  writeFileSync(
    join(at, "what.txt"),
    [
      error.stack,
      "-- errors of the pages",
      ...stage.errors(),
      "-- texts of the pages",
      ...texts,
      "-- the node's log",
      stage.node.logTail(200),
    ].join("\n"),
  );
  return at;
}

function bounded(promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not over after ${JOURNEY_MS / 1000} s`)), JOURNEY_MS);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

async function play({ name, title, journey }, browser, node, folder) {
  const stage = new Stage(browser, node);
  const began = performance.now();
  let failed = null;
  try {
    await bounded(journey(stage));
    if (stage.errors().length > 0) throw new Error(`the page complains: ${stage.errors()[0]}`);
  } catch (error) {
    failed = { error, at: await keepEvidence(folder(), name, stage, error) };
  }
  await stage.close().catch(() => {});
  const seconds = ((performance.now() - began) / 1000).toFixed(1).padStart(6);
  console.log(
    `${failed === null ? "ok  " : "FAIL"} ${name.slice(0, 2)} ${title.padEnd(74)}${seconds} s${stage.notes.length > 0 ? `  ${stage.notes.join("; ")}` : ""}`,
  );
  if (failed !== null)
    console.log(
      `     ${failed.error.message
        .split("\n")
        .slice(0, 12)
        .map((line) => line.slice(0, 200))
        .join("\n     ")}\n     what is left of it: ${failed.at}`,
    );
  return failed === null;
}

async function journeys(words) {
  const files = readdirSync(new URL(".", import.meta.url))
    .filter((file) => /^\d\d-.*\.mjs$/.test(file))
    .sort();
  const wanted = files.filter((file) => words.length === 0 || words.some((word) => file.includes(word)));
  const found = await Promise.all(
    wanted.map(async (file) => {
      const { title, needsProcess = false, default: journey } = await import(`./${file}`);
      return { name: file.replace(/\.mjs$/, ""), title, needsProcess, journey };
    }),
  );
  return found.filter(({ needsProcess }) => NODE_URL === undefined || !needsProcess);
}

async function startNode() {
  if (NODE_URL !== undefined)
    return { url: NODE_URL.replace(/\/(ui\/)?$/, ""), logTail: () => "(not ours)", stop: async () => {} };
  if (WEIR === undefined) throw new Error("WEIR: path of the weir binary");
  const node = new Node(WEIR, budgetLines(WEIR));
  await node.start();
  startLoads(node);
  return node;
}

async function main(words) {
  const list = await journeys(words);
  if (list.length === 0) throw new Error(`no journey is called so: ${words.join(" ")}`);
  const began = performance.now();
  const node = await startNode();
  const browser = await launch();
  let kept = null;
  const folder = () => (kept ??= mkdtempSync(join(tmpdir(), "weir-journeys-")));
  const stop = async () => {
    await browser.close().catch(() => {});
    await node.stop();
  };
  process.once("SIGINT", () => void stop().finally(() => process.exit(130)));
  let good = 0;
  try {
    for (const one of list) good += (await play(one, browser, node, folder)) ? 1 : 0;
  } finally {
    await stop();
  }
  console.log(`${good} of ${list.length} journeys, ${((performance.now() - began) / 1000).toFixed(0)} s`);
  return good === list.length;
}

process.exit((await main(process.argv.slice(2))) ? 0 : 1);
