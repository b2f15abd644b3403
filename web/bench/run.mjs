// The dashboard's figures: the real server (proof/board-bench) with 50,000 made-up budgets, the real page in Chromium, and beside
// it, in the same rounds, the page that one would write first (naive/). Then a real node under load, with and without dashboards.
//
//   BOARD=path/of/board-bench WEIR=path/of/weir node bench/run.mjs [--json FILE] [--quick] [--only NAME,NAME]
//
// MINUTES (10): how long the heap is watched, with updates and scrolling. ROUNDS (3): interleaved rounds. SLACK (1): targets are
// multiplied by it, on machines that others share. WEB: a folder with a built page, instead of the one inside the binary;
// then the files come uncompressed and late: neither the first picture nor what it weighs is the server's.
// --quick: one short round, to see that it works. --only: updates, cpu, scroll, load, actions, heap, node.
// Ends with 1 if something could not be measured; a missed target is said and ends with 0.
import { writeFileSync } from "node:fs";
import { availableParallelism, cpus, loadavg } from "node:os";
import { parseArgs } from "node:util";
import { launch } from "../journeys/lib/browser.mjs";
import { startBoard } from "./lib/board.mjs";
import { decisionRows, decisions } from "./lib/decisions.mjs";
import { figuresOf, print } from "./lib/figures.mjs";
import { serveNaive } from "./lib/naive.mjs";
import {
  csv,
  firstPaint,
  heap,
  naiveUpdates,
  processorTime,
  scrolling,
  sortAndSearch,
  updates,
} from "./lib/page.mjs";

const { values: args } = parseArgs({
  options: {
    json: { type: "string" },
    quick: { type: "boolean", default: false },
    only: { type: "string", default: "" },
  },
});
const { BOARD, WEIR, MINUTES = "10", SLACK = "1" } = process.env;
const quick = args.quick;
const ROUNDS = quick ? 1 : Number(process.env.ROUNDS ?? "3");
const ROWS = 50_000;
const DELTAS = 3_000;
const MANY = 30_000;
const EVERY_MS = 2_000;
/** The naive page needs seconds an update. */
const NAIVE_EVERY_MS = 6_000;
const TICKS = quick ? 3 : 10;
const NAIVE_TICKS = quick ? 1 : 4;
const SCROLL_MS = quick ? 4_000 : 12_000;
const QUIET = { rows: ROWS, deltas: 0, everyMs: EVERY_MS, mode: "spread" };

const spread = { rows: ROWS, deltas: DELTAS, everyMs: EVERY_MS, mode: "spread" };
const hot = { ...spread, mode: "hot" };
const many = { ...hot, deltas: MANY };

const rows = [];
const wanted = (name) => args.only === "" || args.only.split(",").includes(name);
const say = (text) => console.error(`-- ${text}`);

/** A section that fails is told, and the rest is measured all the same. */
async function section(name, quantities, measure) {
  if (!wanted(name)) return;
  say(name);
  try {
    rows.push(...(await measure()));
  } catch (error) {
    console.error(error);
    rows.push(
      ...quantities.map((quantity) => ({
        quantity,
        unit: "",
        samples: [],
        why: error.message.split("\n")[0],
      })),
    );
  }
}

async function withBoard(plan, work) {
  if (BOARD === undefined) throw new Error("BOARD: path of the board-bench binary");
  const board = await startBoard(BOARD, plan);
  try {
    return await work(board);
  } finally {
    await board.stop();
  }
}

/** All variants in turn, round after round. */
async function updateRounds(browser, naive) {
  const found = { spread: [], hot: [], many: [], naive: [], tanstack: [], mounted: [] };
  for (let round = 1; round <= ROUNDS; round += 1) {
    for (const [name, plan] of Object.entries({ spread, hot, many })) {
      say(`updates, round ${round} of ${ROUNDS}: ${name}`);
      found[name].push(await withBoard(plan, (board) => updates(browser, board, { ...plan, count: TICKS })));
    }
    for (const table of ["naive", "tanstack"]) {
      say(`updates, round ${round} of ${ROUNDS}: the page with the ${table} table`);
      const plan = { ...hot, everyMs: NAIVE_EVERY_MS, origin: naive.origin };
      const one = await withBoard(plan, (board) =>
        naiveUpdates(browser, naive, board, { ...plan, table, count: NAIVE_TICKS }),
      );
      found[table].push(one);
      if (table === "naive") found.mounted.push(one.mounted);
    }
  }
  return found;
}

function updateRows({ spread, hot, many, naive, tanstack }) {
  const of = (rounds, key) => rounds.flatMap(({ samples }) => samples.map((sample) => sample[key]));
  const tasks = (rounds) => rounds.map(({ mainThread }) => mainThread);
  const row = (quantity, target, rounds, key, beside) => ({
    quantity,
    unit: "ms",
    target,
    samples: of(rounds, key),
    naive: beside === undefined ? [] : of(beside, key),
  });
  return [
    { ...row("3,000 deltas, hot: as they travel", undefined, hot, "kilobytes"), unit: "kB" },
    row("3,000 deltas, spread: decode and apply", undefined, spread, "decode"),
    row("3,000 deltas, hot: decode and apply", undefined, hot, "decode", naive),
    row("3,000 deltas, spread: apply and render, script", undefined, spread, "script"),
    row("3,000 deltas, hot: apply and render, script", undefined, hot, "script", naive),
    row("3,000 deltas, spread: and style and layout", undefined, spread, "all"),
    row("3,000 deltas, hot: and style and layout", undefined, hot, "all", naive),
    {
      quantity: "3,000 deltas, spread: all of the main thread",
      unit: "ms",
      target: { median: 20 },
      samples: tasks(spread),
    },
    {
      quantity: "3,000 deltas, hot: all of the main thread",
      unit: "ms",
      target: { median: 25 },
      samples: tasks(hot),
      naive: tasks(naive),
    },
    row("30,000 deltas, hot: and style and layout", { median: 7 }, many, "all"),
    row("3,000 deltas, hot, TanStack Table: decode and apply", undefined, tanstack, "decode"),
    row("3,000 deltas, hot, TanStack Table: and render, script", undefined, tanstack, "script"),
    row("3,000 deltas, hot, TanStack Table: and style and layout", undefined, tanstack, "all"),
  ];
}

/** What the bars are about: waits for a core are no work of the page. */
async function cpuRows(browser) {
  const bars = { spread: [0.3, 1, 2.5], hot: [0.3, 1.5, 4] };
  const found = { spread: [], hot: [] };
  for (let round = 0; round < ROUNDS; round += 1)
    for (const plan of [spread, hot])
      found[plan.mode].push(
        ...(await withBoard(plan, (board) => processorTime(browser, board, { ...plan, count: TICKS }))),
      );
  const what = { decode: "decode and apply", script: "and render, script", all: "and style and layout" };
  return Object.keys(found).flatMap((mode) =>
    Object.entries(what).map(([key, words], i) => ({
      quantity: `3,000 deltas, ${mode}, processor time: ${words}`,
      unit: "ms",
      target: { median: bars[mode][i] },
      samples: found[mode].map((sample) => sample[key]),
    })),
  );
}

async function scrollRows(browser) {
  const intervals = [];
  for (let round = 0; round < ROUNDS; round += 1)
    intervals.push(
      ...(await withBoard(hot, (board) => scrolling(browser, board, { rows: ROWS, ms: SCROLL_MS }))),
    );
  const share = (ms) => (intervals.filter((interval) => interval > ms).length / intervals.length) * 100;
  return [
    {
      quantity: "scrolling 6,000 px/s with updates: pictures above 25 ms",
      unit: "%",
      target: { most: 1 },
      samples: [share(25)],
    },
    {
      quantity: "scrolling 6,000 px/s with updates: pictures above 50 ms",
      unit: "%",
      target: { most: 0 },
      samples: [share(50)],
    },
    { quantity: "scrolling 6,000 px/s with updates: between two pictures", unit: "ms", samples: intervals },
  ];
}

async function loadRows(browser, mounted) {
  const found = [];
  await withBoard(QUIET, async (board) => {
    for (let i = 0; i < ROUNDS * 3; i += 1) found.push(await firstPaint(browser, board, { rows: ROWS }));
  });
  return [
    {
      quantity: "first picture of 50,000 rows",
      unit: "ms",
      target: { median: 500 },
      samples: found.map(({ paintedMs }) => paintedMs),
      naive: mounted,
    },
    {
      quantity: "files of the first page, as sent",
      unit: "kB",
      target: { most: 150 },
      samples: found.map(({ kilobytes }) => kilobytes),
    },
  ];
}

async function actionRows(browser) {
  const { sorts, keys } = await withBoard(QUIET, (board) =>
    sortAndSearch(browser, board, { rows: ROWS, times: quick ? 3 : 12 }),
  );
  const files = [];
  await withBoard(QUIET, async (board) => {
    for (let i = 0; i < ROUNDS; i += 1) files.push(await csv(browser, board, { rows: ROWS }));
  });
  return [
    {
      quantity: "sort of 50,000 rows: click to rows in place",
      unit: "ms",
      target: { median: 5 },
      samples: sorts.map(({ rows: ms }) => ms),
    },
    {
      quantity: "sort of 50,000 rows: click to picture",
      unit: "ms",
      samples: sorts.map(({ painted }) => painted),
    },
    {
      quantity: "search in 50,000 rows: key to rows in place",
      unit: "ms",
      samples: keys.map(({ rows: ms }) => ms),
    },
    {
      quantity: "search in 50,000 rows: key to picture",
      unit: "ms",
      target: { median: 16 },
      samples: keys.map(({ painted }) => painted),
    },
    {
      quantity: "CSV of 50,000 rows",
      unit: "ms",
      target: { median: 150 },
      samples: files.map(({ ms }) => ms),
    },
    {
      quantity: "CSV of 50,000 rows: the longest the page stands still",
      unit: "ms",
      target: { most: 50 },
      samples: files.map(({ longest }) => longest),
    },
  ];
}

/** Growth: the mean of the last third against that of the first third, which begins when the page has been up for a while. */
async function heapRows(browser) {
  const found = await withBoard(spread, (board) =>
    heap(browser, board, { rows: ROWS, minutes: quick ? 0.5 : Number(MINUTES) }),
  );
  const third = Math.max(1, Math.floor(found.length / 3));
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const growth = mean(found.slice(-third)) - mean(found.slice(0, third));
  return [
    {
      quantity: `heap after ${quick ? 0.5 : MINUTES} minutes`,
      unit: "MB",
      target: { most: 15 },
      samples: [found.at(-1)],
    },
    { quantity: "heap: growth meanwhile", unit: "MB", target: { most: 0.5 }, samples: [growth] },
  ];
}

async function nodeRows() {
  return decisionRows(await decisions(WEIR, { pairs: quick ? 2 : 8, seconds: quick ? 2 : 6 }));
}

async function pages(browser) {
  let mounted = [];
  await section("updates", ["3,000 and 30,000 deltas"], async () => {
    const naive = await serveNaive();
    try {
      const found = await updateRounds(browser, naive);
      mounted = found.mounted;
      return updateRows(found);
    } finally {
      naive.stop();
    }
  });
  await section("cpu", ["processor time of 3,000 deltas"], () => cpuRows(browser));
  await section("scroll", ["scrolling"], () => scrollRows(browser));
  await section("load", ["first picture"], () => loadRows(browser, mounted));
  await section("actions", ["sort, search, CSV"], () => actionRows(browser));
  await section("heap", ["heap"], () => heapRows(browser));
}

async function main() {
  const load = loadavg()[0];
  const browser = await launch();
  try {
    await pages(browser);
  } finally {
    await browser.close();
  }
  await section("node", ["decisions with dashboards"], () => {
    if (WEIR === undefined) throw new Error("WEIR: path of the weir binary");
    return nodeRows();
  });
  const machine = `${cpus()[0].model}, ${availableParallelism()} cores, load ${load.toFixed(1)} at the beginning and ${loadavg()[0].toFixed(1)} at the end, Chromium headless without a GPU, ${new Date().toISOString()}`;
  const slack = Number(SLACK);
  console.log(`${machine}${slack === 1 ? "" : `; targets x ${slack}`}`);
  print(rows, slack);
  if (args.json !== undefined)
    writeFileSync(
      args.json,
      `${JSON.stringify({ machine, slack, rows: rows.map((row) => figuresOf(row, slack)) }, null, 1)}\n`,
    );
  return rows.every(({ samples }) => samples.length > 0);
}

process.exit((await main()) ? 0 : 1);
