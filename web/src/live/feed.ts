// The connection to a node: frames in, acknowledgements out, and one announcement a tick to those who draw.
import {
  FrameError,
  type Header,
  type Spark,
  readFrame,
  writeAcknowledge,
  writeResync,
  writeWatch,
} from "./codec";
import { waitMs } from "./backoff";
import { Freshness } from "./freshness";
import { measured } from "../ui/measured";
import { Sequence } from "./sequence";
import type { Table } from "./table";

export type Connection = "connecting" | "loading" | "live" | "waiting" | "hidden" | "refused";

export interface FeedState {
  connection: Connection;
  /** When the next attempt begins, browser's clock. */
  retryAtMs: number;
  attempt: number;
  /** What went wrong last; for people. */
  problem: string;
  loadedRows: number;
  /** How many rows the snapshot that is being loaded has; 0 before its first part. */
  rowsTotal: number;
  run: number;
}

/** Changes come as patches. */
const PROTOCOL = "weir.live.3";

export type Change = "rows" | "table";

export class Feed {
  readonly freshness = new Freshness();
  readonly sparks = new Map<number, Spark>();
  state: FeedState = {
    connection: "connecting",
    retryAtMs: 0,
    attempt: 0,
    problem: "",
    loadedRows: 0,
    rowsTotal: 0,
    run: 0,
  };
  /** Rows that changed since the page began, for whoever freezes the view. */
  changes = 0;
  private readonly sequence = new Sequence(() => this.acknowledge());
  private readonly drawers = new Set<(change: Change) => void>();
  private readonly watchers = new Set<() => void>();
  private socket: WebSocket | null = null;
  private timer = 0;
  private pending: Change | null = null;
  private owed = false;
  private watched: readonly number[] = [];

  constructor(
    private readonly address: string,
    private readonly token: () => string | null,
  ) {}

  get table(): Table | null {
    return this.sequence.table;
  }

  /** What can be shown: while the first table is on its way, the rows that have come. */
  get shown(): Table | null {
    return this.table ?? this.sequence.head;
  }

  /** Called at most once per frame of the screen, after figures changed. */
  onChange = (draw: (change: Change) => void): (() => void) => {
    this.drawers.add(draw);
    return () => void this.drawers.delete(draw);
  };

  /** For React's useSyncExternalStore. */
  subscribe = (changed: () => void): (() => void) => {
    this.watchers.add(changed);
    return () => void this.watchers.delete(changed);
  };

  snapshotState = (): FeedState => this.state;

  start(): void {
    document.addEventListener("visibilitychange", this.visibility);
    window.addEventListener("online", this.retryNow);
    this.connect();
  }

  retryNow = (): void => {
    if (this.socket === null) this.connect();
  };

  /** Which rows are shown; the node sends sparklines of these. */
  watch(rows: readonly number[]): void {
    const same = rows.length === this.watched.length && rows.every((row, i) => row === this.watched[i]);
    if (same) return;
    this.watched = rows;
    this.send(writeWatch(this.sequence.last, rows));
  }

  private connect(): void {
    window.clearTimeout(this.timer);
    this.sequence.restart();
    this.tell({ connection: "connecting", loadedRows: 0 });
    const token = this.token();
    const socket = new WebSocket(this.address, token === null ? [PROTOCOL] : [PROTOCOL, `bearer.${token}`]);
    socket.binaryType = "arraybuffer";
    socket.onopen = () => this.opened();
    socket.onmessage = (message) => this.message(message.data);
    socket.onclose = (closed) => this.closed(closed.reason);
    this.socket = socket;
  }

  private opened(): void {
    this.freshness.restart();
    this.owed = false;
    this.tell({ connection: "loading" });
    if (this.watched.length > 0) this.send(writeWatch(this.sequence.last, this.watched));
  }

  private closed(reason: string): void {
    this.socket = null;
    if (this.state.connection === "refused") return;
    const wait = waitMs(this.state.attempt, Math.random());
    const problem = reason || "the connection was lost";
    this.tell({
      connection: "waiting",
      retryAtMs: Date.now() + wait,
      attempt: this.state.attempt + 1,
      problem,
    });
    this.timer = window.setTimeout(() => this.connect(), wait);
  }

  private message(data: unknown): void {
    if (!(data instanceof ArrayBuffer)) return this.socket?.close(1002);
    const fromMs = performance.now();
    try {
      this.frame(data);
      measured("weir:apply", fromMs);
    } catch (error) {
      if (!(error instanceof FrameError)) throw error;
      this.send(writeResync(this.sequence.last));
    }
  }

  private frame(data: ArrayBuffer): void {
    const frame = readFrame(data);
    const outcome = this.sequence.take(frame);
    switch (outcome.does) {
      case "ignore":
        return;
      case "leave":
        return this.leave(outcome.why);
      case "resync":
        this.tell({ connection: "loading", problem: outcome.why, loadedRows: 0 });
        return this.send(writeResync(this.sequence.last));
      case "sparks":
        for (const spark of outcome.sparks) this.sparks.set(spark.row, spark);
        this.announce("rows");
        return this.acknowledge();
      case "load":
        if (!outcome.isWhole) return this.loading();
        this.sparks.clear();
        return this.applied("table", frame.header);
      case "acknowledge":
        this.changes += frame.header.count;
        this.applied("rows", frame.header);
        return this.acknowledge();
    }
  }

  private loading(): void {
    const { loaded, total, head } = this.sequence;
    this.tell({ loadedRows: loaded, rowsTotal: total });
    if (head?.rows === loaded) this.announce("table");
  }

  private applied(changed: Change, { asOfMs, run }: Header): void {
    this.freshness.heard(asOfMs, Date.now());
    if (this.state.connection !== "live" || this.state.run !== run)
      this.tell({ connection: "live", attempt: 0, problem: "", run });
    this.announce(changed);
  }

  /** The page is of another release than the node; coming back would not help. */
  private leave(why: string): void {
    this.tell({ connection: "refused", problem: why });
    this.socket?.close(1002);
  }

  /** Nobody looks at a hidden tab: the node keeps one bit per row until it is shown again. */
  private acknowledge(): void {
    if (document.hidden) {
      this.owed = true;
      return;
    }
    this.send(writeAcknowledge(this.sequence.last));
  }

  private visibility = (): void => {
    if (document.hidden) {
      if (this.state.connection === "live") this.tell({ connection: "hidden" });
      return;
    }
    if (this.state.connection === "hidden") this.tell({ connection: "live" });
    if (this.owed) {
      this.owed = false;
      this.freshness.restart();
      this.send(writeAcknowledge(this.sequence.last));
    }
    this.retryNow();
  };

  private send(message: ArrayBuffer): void {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(message);
  }

  /** Several frames between two pictures are one announcement. */
  private announce(change: Change): void {
    const scheduled = this.pending !== null;
    this.pending = change === "table" || this.pending === "table" ? "table" : "rows";
    if (!scheduled) requestAnimationFrame(() => this.draw());
  }

  private draw(): void {
    const change = this.pending ?? "rows";
    this.pending = null;
    for (const draw of this.drawers) draw(change);
  }

  private tell(changes: Partial<FeedState>): void {
    this.state = { ...this.state, ...changes };
    for (const changed of this.watchers) changed();
  }
}
