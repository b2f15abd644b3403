// A node and the load on it, as processes of their own; everything they write is in one temporary folder.
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { createWriteStream, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const READY_MS = 90_000;
const END_MS = 40_000;

const running = new Set();
// Whatever ends this process ends what it started.
process.on("exit", () => running.forEach((child) => child.kill("SIGKILL")));

/** Output goes to a file, so that it is there when something fails. */
function start(command, args, log) {
  const child = spawn(command, args, { stdio: ["ignore", "pipe", "pipe"] });
  const file = createWriteStream(log, { flags: "a" });
  child.stdout.pipe(file, { end: false });
  child.stderr.pipe(file, { end: false });
  running.add(child);
  child.once("exit", () => {
    running.delete(child);
    file.end();
  });
  return child;
}

async function end(child, signal) {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = once(child, "exit");
  child.kill(signal);
  const timer = setTimeout(() => child.kill("SIGKILL"), END_MS);
  await gone;
  clearTimeout(timer);
}

/** What a command of the node prints. */
export function print(weir, args) {
  const { status, stdout, stderr } = spawnSync(weir, args, { encoding: "utf8", maxBuffer: 1 << 30 });
  if (status !== 0) throw new Error(`weir ${args.join(" ")} ended with ${status}: ${stderr}`);
  return stdout;
}

/** A client that never connects, for the page of FIX sessions. */
const FIX = `
[fix]
listen = "127.0.0.1:0"
[[fix.session]]
sender_comp_id = "GATE"
target_comp_id = "CLIENT1"
limits = "none"
route = "echo"
`;

/** A node on ports of its own. It can be killed and started again at the same addresses. */
export class Node {
  folder = mkdtempSync(join(tmpdir(), "weir-node-"));
  log = join(this.folder, "node.log");
  addresses = { batch: "127.0.0.1:0", openrtb: "127.0.0.1:0", admin: "127.0.0.1:0" };
  child = null;
  loads = [];

  /** `lines`: of the budgets file; `config`: text of weir.toml, given the node's folder. */
  constructor(weir, lines, config = () => "") {
    this.weir = weir;
    this.budgets = join(this.folder, "budgets.jsonl");
    this.config = join(this.folder, "weir.toml");
    writeFileSync(this.budgets, lines.join("\n") + "\n");
    writeFileSync(this.config, config(this.folder) + FIX);
  }

  /** Where the dashboard is, without a slash at the end. */
  get url() {
    return `http://${this.addresses.admin}`;
  }

  async start() {
    const { batch, openrtb, admin } = this.addresses;
    const args = [
      "run",
      "--config",
      this.config,
      "--budgets",
      this.budgets,
      "--data",
      join(this.folder, "data"),
      "--batch",
      batch,
      "--openrtb",
      openrtb,
      "--spend",
      "127.0.0.1:0",
      "--admin",
      admin,
    ];
    this.child = start(this.weir, args, this.log);
    await this.ready(this.child);
  }

  ready(child) {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(
        () => reject(new Error(`the node is not ready after ${READY_MS / 1000} s`)),
        READY_MS,
      );
      child.once("exit", (code) => {
        clearTimeout(timer);
        reject(new Error(`the node ended with ${code}:\n${this.logTail()}`));
      });
      createInterface({ input: child.stdout }).on("line", (line) => {
        const [word, address] = line.split(" ");
        if (word in this.addresses)
          this.addresses[word] = address.replace(/^https?:\/\//, "").replace(/\/$/, "");
        if (word !== "ready") return;
        clearTimeout(timer);
        resolve();
      });
    });
  }

  /** As the kernel does when memory is short: no word of goodbye. */
  async kill() {
    await end(this.child, "SIGKILL");
  }

  /** The hammer with these arguments, until the node stops. */
  load(...args) {
    this.loads.push(start(this.weir, ["hammer", ...args], join(this.folder, "load.log")));
  }

  /** What the hammer reports of a short run of asks: `--json`. */
  asks(...args) {
    return JSON.parse(
      print(this.weir, [
        "hammer",
        "--target",
        this.addresses.batch,
        "--json",
        "--quiet",
        "--exclusive",
        "false",
        ...args,
      ]),
    );
  }

  async endLoads() {
    await Promise.all(this.loads.map((child) => end(child, "SIGINT")));
    this.loads = [];
  }

  logTail(lines = 40) {
    try {
      return readFileSync(this.log, "utf8").split("\n").slice(-lines).join("\n");
    } catch {
      return "(no log)";
    }
  }

  async stop() {
    await this.endLoads();
    if (this.child !== null) await end(this.child, "SIGINT");
    rmSync(this.folder, { recursive: true, force: true });
  }
}
