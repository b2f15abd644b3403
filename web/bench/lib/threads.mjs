// What the kernel says of a process: the CPU time of its threads, and how long they were ready to run while others had the cores.
import { readFileSync, readdirSync } from "node:fs";

/** `Map` of `{ cpu, wait }`, seconds since the start, by name; threads whose names differ in a number only are one group. */
export function threads(pid) {
  const groups = new Map();
  for (const id of readdirSync(`/proc/${pid}/task`)) {
    const of = (file) => readFileSync(`/proc/${pid}/task/${id}/${file}`, "utf8").trim();
    try {
      const [cpu, wait] = of("schedstat").split(" ").map(Number);
      const name = of("comm").replace(/[-\s]?\d+$/, "");
      const sum = groups.get(name) ?? { cpu: 0, wait: 0 };
      groups.set(name, { cpu: sum.cpu + cpu / 1e9, wait: sum.wait + wait / 1e9 });
    } catch (error) {
      // The thread has ended meanwhile.
      if (error.code !== "ENOENT" && error.code !== "ESRCH") throw error;
    }
  }
  return groups;
}

/** What a process uses from now until the returned function is called, by name of its threads: seconds of CPU a second, of waiting. */
export function metered(pid) {
  const [begun, before] = [performance.now(), threads(pid)];
  return () => {
    const seconds = (performance.now() - begun) / 1e3;
    const used = [...threads(pid)].map(([name, { cpu, wait }]) => {
      const old = before.get(name) ?? { cpu: 0, wait: 0 };
      return [
        name,
        { cpu: Math.max(0, cpu - old.cpu) / seconds, wait: Math.max(0, wait - old.wait) / seconds },
      ];
    });
    return new Map(used);
  };
}

/** CPU of all threads together. */
export const cpuOf = (used) => [...used.values()].reduce((sum, { cpu }) => sum + cpu, 0);
