// Do a hundred dashboards slow the node down? Rounds with and without them take turns, under the same load.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { availableParallelism } from "node:os";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { Node, print } from "../../journeys/lib/node.mjs";
import { cpuOf, metered } from "./threads.mjs";

const VIEWERS = 100;
const BUDGETS = 50_000;
/** So many of them are asked for, so about so many rows change at each tick: as in the page's own figures. */
const ASKED = 3_000;
const START_MS = 120_000;
/** How often a node looks at all budgets, by default. */
const TICK_MS = 2_000;

/** The last core: farthest from the workers, which begin at the first ones. */
const onLastCore = (command, args) => [
  "taskset",
  ["-c", String(availableParallelism() - 1), command, ...args],
];

async function startViewers(node) {
  const script = fileURLToPath(new URL("viewers.mjs", import.meta.url));
  const child = spawn(
    ...onLastCore(process.execPath, [script, `ws://${node.addresses.admin}/v1/live`, String(VIEWERS)]),
    { stdio: ["ignore", "pipe", "inherit"] },
  );
  const lines = createInterface({ input: child.stdout });
  const gone = once(child, "exit").then(([code]) =>
    Promise.reject(new Error(`the dashboards ended with ${code} before they had all rows`)),
  );
  gone.catch(() => {});
  const timer = setTimeout(() => child.kill("SIGKILL"), START_MS);
  await Promise.race([once(lines, "line"), gone]);
  clearTimeout(timer);
  return {
    pid: child.pid,
    stop: async () => {
      const last = once(lines, "line");
      child.kill("SIGTERM");
      const [text] = await last;
      await once(child, "close");
      return JSON.parse(text);
    },
  };
}

/** As much work on the same core as the dashboards' own process did, without any dashboard. */
function startBurner(cpu) {
  const script = fileURLToPath(new URL("burner.mjs", import.meta.url));
  const child = spawn(...onLastCore(process.execPath, [script, String(cpu * TICK_MS), String(TICK_MS)]), {
    stdio: "ignore",
  });
  return {
    stop: async () => {
      const gone = once(child, "exit");
      child.kill("SIGKILL");
      await gone;
    },
  };
}

/**
 * Rounds of the same load: alone, with dashboards, and with a process that only uses the CPU that the dashboards' own process did, which
 * is what a browser elsewhere would not take from the node. `[{ alone, viewed, burdened, frames, megabytes, viewers }]`; the first three are
 * `{ rate, used }`, decisions per second and what the node's threads used; `viewers` is the CPU of the dashboards' process, cores.
 */
export async function decisions(weir, { pairs, seconds }) {
  const node = new Node(
    weir,
    print(weir, ["sample-budgets", "--count", String(BUDGETS)])
      .trim()
      .split("\n"),
  );
  const round = () => {
    const used = metered(node.child.pid);
    const { decisions_per_s: rate } = node.asks(
      "--duration",
      `${seconds}s`,
      "--budgets",
      String(ASKED),
      "--audit-every",
      "0s",
      "--core",
      String(availableParallelism() - 1),
    );
    return { rate, used: used() };
  };
  const withViewers = async () => {
    const viewers = await startViewers(node);
    const used = metered(viewers.pid);
    const viewed = round();
    const cpu = cpuOf(used());
    const { frames, bytes, closed } = await viewers.stop();
    if (closed > 0) throw new Error(`${closed} of ${VIEWERS} viewers were cut off`);
    return { viewed, viewers: cpu, frames: frames / VIEWERS, megabytes: bytes / 1e6 };
  };
  try {
    await node.start();
    round();
    const found = [];
    for (let i = 0; i < pairs; i += 1) {
      // Each order comes as often as the other: what a machine does in the long run hits both.
      const first = i % 2 === 0 ? round() : null;
      const seen = await withViewers();
      const burner = startBurner(seen.viewers);
      const burdened = round();
      await burner.stop();
      found.push({ alone: first ?? round(), ...seen, burdened });
    }
    return found;
  } finally {
    await node.stop();
  }
}

const lost = (from, to) => (1 - to.rate / from.rate) * 100;

/** Rows of the table. */
export function decisionRows(found) {
  const row = (quantity, unit, samples, target) => ({ quantity, unit, samples, target });
  const groups = [...new Set(found.flatMap(({ viewed }) => [...viewed.used.keys()]))];
  const cpu = ({ used }, name) => (used.get(name)?.cpu ?? 0) * 100;
  const most = (name) =>
    Math.max(...found.flatMap(({ alone, viewed }) => [cpu(alone, name), cpu(viewed, name)]));
  const of = (name) => (groups.includes(name) ? [name] : []);
  const told = [
    ...new Set([...groups.filter((name) => most(name) >= 1), ...of("admin"), ...of("survey")]),
  ].sort();
  return [
    row(
      "decisions per second without dashboards",
      "/s",
      found.map(({ alone }) => alone.rate),
    ),
    row(
      "decisions per second with 100 dashboards",
      "/s",
      found.map(({ viewed }) => viewed.rate),
    ),
    {
      ...row(
        "100 dashboards: fewer decisions per second, pair by pair",
        "%",
        found.map(({ alone, viewed }) => lost(alone, viewed)),
        { median: 2 },
      ),
      differences: true,
    },
    row(
      "the same, for the CPU that the dashboards' own process takes",
      "%",
      found.map(({ alone, burdened }) => lost(alone, burdened)),
    ),
    row(
      "100 dashboards: frames each had in a round",
      "",
      found.map(({ frames }) => frames),
    ),
    row(
      "100 dashboards: bytes sent to all in a round",
      "MB",
      found.map(({ megabytes }) => megabytes),
    ),
    row(
      "CPU of the dashboards' own process, of a core",
      "%",
      found.map(({ viewers }) => viewers * 100),
    ),
    ...told.flatMap((name) => [
      row(
        `CPU of the node's ${name}, without dashboards`,
        "%",
        found.map(({ alone }) => cpu(alone, name)),
      ),
      row(
        `CPU of the node's ${name}, with 100 dashboards`,
        "%",
        found.map(({ viewed }) => cpu(viewed, name)),
      ),
    ]),
  ];
}
