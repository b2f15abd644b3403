// Do a hundred dashboards slow the node down? Rounds with and without them take turns, under the same load.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { availableParallelism } from "node:os";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { Node, print } from "../../journeys/lib/node.mjs";

const VIEWERS = 100;
const BUDGETS = 50_000;
/** So many of them are asked for, so about so many rows change at each tick: as in the page's own figures. */
const ASKED = 3_000;
const START_MS = 120_000;

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
    stop: async () => {
      const last = once(lines, "line");
      child.kill("SIGTERM");
      const [text] = await last;
      await once(child, "close");
      return JSON.parse(text);
    },
  };
}

/** Decisions a second of pairs of rounds, and what the viewers saw: `[{ without, with, frames, megabytes }]`. */
export async function decisions(weir, { pairs, seconds }) {
  const node = new Node(
    weir,
    print(weir, ["sample-budgets", "--count", String(BUDGETS)])
      .trim()
      .split("\n"),
  );
  const round = () =>
    node.asks(
      "--duration",
      `${seconds}s`,
      "--budgets",
      String(ASKED),
      "--audit-every",
      "0s",
      "--core",
      String(availableParallelism() - 1),
    ).decisions_per_s;
  try {
    await node.start();
    round();
    const found = [];
    for (let i = 0; i < pairs; i += 1) {
      const withViewers = async () => {
        const viewers = await startViewers(node);
        const rate = round();
        const { frames, bytes, closed } = await viewers.stop();
        if (closed > 0) throw new Error(`${closed} of ${VIEWERS} viewers were cut off`);
        return { rate, frames: frames / VIEWERS, megabytes: bytes / 1e6 };
      };
      // Each order comes as often as the other: what a machine does in the long run hits both.
      const alone = i % 2 === 0 ? round() : null;
      const { rate, ...seen } = await withViewers();
      found.push({ without: alone ?? round(), with: rate, ...seen });
    }
    return found;
  } finally {
    await node.stop();
  }
}
