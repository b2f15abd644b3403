// What is measured in the dashboard's page. Every function opens a page of its own and closes it.
import { extname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { until } from "../../journeys/lib/wait.mjs";
import { install, scroll, ticks } from "./probe.mjs";

/** A changed row has its number, a mask and a word at least: what is much smaller than expected is no whole tick. */
const ROW_BYTES = 16;
const LOAD_MS = 120_000;
const WARM_TICKS = 1;

/** A page that nothing foreign can look into gets clocks of 5 us instead of 100 us. */
const ISOLATED = {
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cross-Origin-Embedder-Policy": "require-corp",
};

const TYPES = { ".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css" };

/** Adds the headers on the way. Chromium then no longer knows that the page came from this machine, so what it may do here is granted. */
async function isolate(context, origin) {
  await context.grantPermissions(["local-network-access"], { origin });
  await context.route("**/ui/", async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, headers: { ...response.headers(), ...ISOLATED } });
  });
}

/** Serves the page from a folder instead of the one inside the binary: a page is measured without building the binary anew. */
async function serveFrom(folder, context, origin) {
  await context.grantPermissions(["local-network-access"], { origin });
  await context.route("**/ui/**", (route) => {
    const name = new URL(route.request().url()).pathname.slice("/ui/".length) || "index.html";
    return route.fulfill({
      path: join(folder, name),
      headers: { ...ISOLATED, "Content-Type": TYPES[extname(name)] },
    });
  });
}

/**
 * Playwright follows the network of each page: then Chromium sends it every frame of the live stream as text, which takes the page's
 * main thread 10 ms a megabyte, more than all that the page does with it. There is no official way to say no. Once the page is begun:
 * before, its changed headers would not count.
 */
async function leaveNetworkAlone(page) {
  const session = page._connection.toImpl(page).delegate._mainFrameSession._client;
  await session.send("Network.disable");
}

/** Opens the dashboard on a board and waits for its rows. `asSent`: without changing a header, for what its files weigh and take. */
async function open(browser, board, { expected, asSent = false, probed = true }) {
  const context = await browser.newContext({
    viewport: { width: 1280, height: 1000 },
    reducedMotion: "reduce",
  });
  if (process.env.WEB) await serveFrom(process.env.WEB, context, board.url);
  else if (!asSent) await isolate(context, board.url);
  const page = await context.newPage();
  if (probed) await page.addInitScript(install);
  const cdp = await context.newCDPSession(page);
  await cdp.send("Performance.enable");
  await page.goto(`${board.url}/ui/`, { waitUntil: "commit" });
  await leaveNetworkAlone(page);
  await until(
    `${expected} rows`,
    () =>
      page.evaluate(
        (rows) => Number(document.querySelector('[role="grid"]')?.getAttribute("aria-rowcount")) === rows + 1,
        expected,
      ),
    LOAD_MS,
  );
  return { page, cdp, close: () => context.close() };
}

/** Runs in the page: bytes of every file that came, as they travelled. */
const bytesSent = () =>
  [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")].reduce(
    (sum, { transferSize }) => sum + transferSize,
    0,
  );

const taskMs = async (cdp) =>
  (await cdp.send("Performance.getMetrics")).metrics.find(({ name }) => name === "TaskDuration").value * 1000;

/** So many ticks: what each costs in the handlers, and all time of the main thread divided by them. */
async function sampleTicks({ page, cdp }, { count, everyMs, bytesLeast }) {
  const found = () => page.evaluate(() => globalThis.bench.samples);
  const whole = async () => ticks(await found(), everyMs, bytesLeast).length;
  await page.evaluate(() => {
    globalThis.bench.samples.length = 0;
  });
  const within = (ticksMore) => (ticksMore + 5) * Math.max(everyMs, 1_000) * 3;
  await until("a tick to warm up", async () => (await whole()) >= WARM_TICKS, within(WARM_TICKS));
  const before = await taskMs(cdp);
  // Asking takes main thread too: not before they can be there.
  await sleep((count - 1) * everyMs);
  await until(`${count} ticks`, async () => (await whole()) >= WARM_TICKS + count, within(count));
  const spent = (await taskMs(cdp)) - before;
  const samples = ticks(await found(), everyMs, bytesLeast).slice(WARM_TICKS);
  return { samples, mainThread: spent / samples.length };
}

export async function updates(browser, board, { rows, deltas, everyMs, count }) {
  const opened = await open(browser, board, { expected: rows });
  try {
    return await sampleTicks(opened, { count, everyMs, bytesLeast: deltas * ROW_BYTES * 0.8 });
  } finally {
    await opened.close();
  }
}

/** Pictures and messages shorter than this are no update of thousands of rows. */
const UPDATE_US = 100;
/** Style and layout that begin so soon after a picture are that picture's. */
const PICTURE_US = 40_000;

/** As `updates`, by the clock of the page's main thread, which other processes do not slow down; nothing is put into the page. */
export async function processorTime(browser, board, { rows, everyMs, count }) {
  const { page, close } = await open(browser, board, { expected: rows, probed: false });
  try {
    await sleep(3 * everyMs);
    await browser.startTracing(page, { categories: ["devtools.timeline", "toplevel"] });
    await sleep(count * everyMs);
    return samplesOf(JSON.parse((await browser.stopTracing()).toString()).traceEvents);
  } finally {
    await close();
  }
}

function samplesOf(trace) {
  const main = trace.find(({ name }) => name === "FireAnimationFrame").tid;
  const timed = trace.filter(({ tid, ph, tdur }) => tid === main && ph === "X" && tdur !== undefined);
  const named = (...names) => timed.filter(({ name }) => names.includes(name));
  const messages = named("FunctionCall").filter(
    ({ tdur, args }) => tdur > UPDATE_US && args.data?.functionName?.includes("onmessage"),
  );
  const layouts = named("Layout", "UpdateLayoutTree");
  return named("FireAnimationFrame")
    .filter(({ tdur }) => tdur > UPDATE_US)
    .flatMap(({ ts, tdur }) => {
      const message = messages.findLast((one) => one.ts < ts);
      if (message === undefined) return [];
      const layout = layouts
        .filter((one) => one.ts >= ts && one.ts < ts + PICTURE_US)
        .reduce((sum, one) => sum + one.tdur, 0);
      const script = message.tdur + tdur;
      return [{ decode: message.tdur / 1_000, script: script / 1_000, all: (script + layout) / 1_000 }];
    });
}

/** The naive page, and the one with TanStack's table, are measured by their own clocks. */
export async function naiveUpdates(browser, naive, board, { rows, everyMs, count, table = "" }) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 1000 } });
  try {
    const page = await context.newPage();
    const cdp = await context.newCDPSession(page);
    await cdp.send("Performance.enable");
    const begun = performance.now();
    const live = `${board.url.replace(/^http/, "ws")}/v1/live?fmt=json`;
    await page.goto(`${naive.origin}/?table=${table}&live=${encodeURIComponent(live)}`, {
      waitUntil: "commit",
    });
    await leaveNetworkAlone(page);
    await page.waitForFunction((all) => globalThis.bench?.rows === all, rows, {
      timeout: LOAD_MS,
      polling: 250,
    });
    const mounted = performance.now() - begun;
    await page.evaluate(() => {
      globalThis.bench.samples.length = 0;
    });
    const before = await taskMs(cdp);
    await page.waitForFunction(
      (all) => globalThis.bench.samples.filter(({ bytes }) => bytes > 10_000).length >= all,
      count,
      { timeout: (count + 5) * everyMs * 4, polling: 250 },
    );
    const spent = (await taskMs(cdp)) - before;
    const samples = (await page.evaluate(() => globalThis.bench.samples))
      .filter(({ bytes }) => bytes > 10_000)
      .map(({ decode, render, layout }) => ({
        decode,
        script: decode + render,
        all: decode + render + layout,
      }));
    return { samples, mainThread: spent / samples.length, mounted };
  } finally {
    await context.close();
  }
}

/** Milliseconds between pictures while scrolling, with updates. */
export async function scrolling(browser, board, { rows, ms }) {
  const opened = await open(browser, board, { expected: rows });
  try {
    await opened.page.mouse.move(5, 5);
    return await opened.page.evaluate(scroll, { speed: 6_000, ms });
  } finally {
    await opened.close();
  }
}

/** From the beginning of the navigation to the picture with rows; bytes of the files. */
export async function firstPaint(browser, board, { rows }) {
  const opened = await open(browser, board, { expected: rows, asSent: true });
  try {
    const paintedMs = await until("the time of the first picture", () =>
      opened.page.evaluate(() => globalThis.bench.rowsAtMs),
    );
    return { paintedMs, kilobytes: (await opened.page.evaluate(bytesSent)) / 1000 };
  } finally {
    await opened.close();
  }
}

async function heapMb(cdp) {
  await cdp.send("HeapProfiler.collectGarbage");
  return (await cdp.send("Runtime.getHeapUsage")).usedSize / 1e6;
}

/** Megabytes after garbage is collected, each half minute, while the page is scrolled and updated. */
export async function heap(browser, board, { rows, minutes }) {
  const opened = await open(browser, board, { expected: rows });
  try {
    const found = [];
    for (let half = 0; half <= minutes * 2; half += 1) {
      const ms = half === 0 ? 10_000 : 30_000;
      await opened.page.evaluate(scroll, { speed: 2_000, ms });
      found.push(await heapMb(opened.cdp));
    }
    return found;
  } finally {
    await opened.close();
  }
}

/** Runs in the page: from an event to rows in their new places, and to the picture of them. */
function watchNext(type) {
  const grid = document.querySelector('[role="grid"]');
  const drawn = { begun: null, rows: null, painted: null };
  globalThis.benchNext = drawn;
  window.addEventListener(
    type,
    (event) => {
      drawn.begun = event.timeStamp;
    },
    { capture: true, once: true },
  );
  const seen = new MutationObserver(() => {
    if (drawn.begun === null) return;
    drawn.rows ??= performance.now();
    seen.disconnect();
    requestAnimationFrame(() => {
      const { port1, port2 } = new MessageChannel();
      port1.onmessage = () => {
        drawn.painted = performance.now();
      };
      port2.postMessage(null);
    });
  });
  seen.observe(grid.querySelector('[role="gridcell"]').closest('[role="rowgroup"]'), {
    subtree: true,
    childList: true,
    characterData: true,
    attributes: true,
  });
}

/** Each of them leaves other rows than the one before. */
const KEYS = [
  "1",
  "2",
  "3",
  "4",
  "Backspace",
  "Backspace",
  "Backspace",
  "7",
  "8",
  "9",
  "Backspace",
  "Backspace",
];

async function timeOf(page, type, act) {
  await page.evaluate(watchNext, type);
  await act();
  const next = await until(`a picture after ${type}`, async () => {
    const drawn = await page.evaluate(() => globalThis.benchNext);
    return drawn.painted !== null && drawn;
  });
  return { rows: next.rows - next.begun, painted: next.painted - next.begun };
}

/** Clicks on headers, each for another order, and keys in the search; the board behind it must be quiet. */
export async function sortAndSearch(browser, board, { rows, times }) {
  const opened = await open(browser, board, { expected: rows });
  const { page } = opened;
  try {
    const sorts = [];
    for (let i = 0; i < times; i += 1) {
      const header = page.getByRole("columnheader", { name: ["Limit", "Id"][i % 2], exact: true });
      sorts.push(await timeOf(page, "click", () => header.click()));
    }
    const search = page.getByRole("searchbox");
    await search.click();
    const keys = [];
    for (const key of KEYS.slice(0, times))
      keys.push(await timeOf(page, "keydown", () => page.keyboard.press(key)));
    return { sorts, keys };
  } finally {
    await opened.close();
  }
}

/** From the click to the file, and the longest that the page stood still meanwhile. */
export async function csv(browser, board, { rows }) {
  const opened = await open(browser, board, { expected: rows });
  const { page } = opened;
  try {
    await page.evaluate(() => {
      globalThis.bench.urls.length = 0;
      globalThis.bench.longTasks.length = 0;
      window.addEventListener(
        "click",
        (event) => {
          globalThis.bench.clicked = event.timeStamp;
        },
        { capture: true, once: true },
      );
    });
    await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "CSV" }).click()]);
    return await page.evaluate(() => {
      const { urls, clicked, longTasks } = globalThis.bench;
      const during = longTasks.filter(({ startTime }) => startTime >= clicked - 5 && startTime <= urls[0]);
      return { ms: urls[0] - clicked, longest: Math.max(0, ...during.map(({ duration }) => duration)) };
    });
  } finally {
    await opened.close();
  }
}
