// The real server on made-up budgets, as a process: see proof/board-bench.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

const START_MS = 60_000;
const running = new Set();
process.on("exit", () => running.forEach((child) => child.kill("SIGKILL")));

/** `{ rows, deltas, everyMs, mode, origin }` */
export async function startBoard(binary, plan) {
  const args = [
    "--rows",
    plan.rows,
    "--deltas",
    plan.deltas,
    "--every-ms",
    plan.everyMs,
    "--mode",
    plan.mode,
    ...(plan.origin === undefined ? [] : ["--origin", plan.origin]),
  ];
  const child = spawn(binary, args.map(String), { stdio: ["ignore", "pipe", "inherit"] });
  running.add(child);
  child.once("exit", () => running.delete(child));
  const timer = setTimeout(() => child.kill("SIGKILL"), START_MS);
  const [line] = await Promise.race([
    once(createInterface({ input: child.stdout }), "line"),
    once(child, "exit").then(([code]) => Promise.reject(new Error(`board-bench ended with ${code}`))),
  ]);
  clearTimeout(timer);
  return {
    url: line,
    stop: async () => {
      const gone = once(child, "exit");
      child.kill("SIGKILL");
      await gone;
    },
  };
}
