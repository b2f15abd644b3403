// Which rows, in which order, with which totals: between the feed and what is drawn.
import { useSyncExternalStore } from "react";
import { STATUSES } from "../live/codes";
import type { Change, Feed } from "../live/feed";
import { RATES, type Table, WIDE } from "../live/table";
import { measured } from "../ui/measured";
import { type View, viewText } from "../url/view";
import { Order } from "./order";
import { Selection } from "./selection";
import { entering } from "./sort";
import type { Counts } from "./totals";

/** What React shows. It stays the same object while nothing of it differs: figures are drawn, not rendered. */
export interface Summary {
  rows: number;
  matched: number;
  selected: number;
  /** The order is held and stands no longer: how old it is, and how many rows would come into view. */
  held: { ageMs: number; entering: number } | null;
  /** Changes that came since the view was frozen. */
  missed: number;
  /** Live budgets made from templates that the node sends no row of. */
  hidden: number;
  frozenAsOfMs: number | null;
  /** Rows are still on their way: nothing can be said of all of them. */
  isComing: boolean;
  /** Which statuses there are, and whether a budget is over its limit. */
  statuses: readonly boolean[];
  isOver: boolean;
  /** The units of the totals, and whether one is of several zones. */
  units: readonly string[];
  manyZones: boolean;
}

const NO_COUNTS: Counts = { statuses: STATUSES.map(() => 0), over: 0, totals: [] };

const NOTHING: Summary = {
  rows: 0,
  matched: 0,
  selected: 0,
  held: null,
  missed: 0,
  hidden: 0,
  frozenAsOfMs: null,
  isComing: false,
  ...outlineOf(NO_COUNTS),
};

/** What of counts is rendered: which there are. */
function outlineOf({ statuses, over, totals }: Counts) {
  return {
    statuses: statuses.map((rows) => rows > 0),
    isOver: over > 0,
    units: totals.map(({ unit }) => unit),
    manyZones: totals.some(({ zones }) => zones > 1),
  };
}

export class Model {
  readonly selection = new Selection();
  order: Uint32Array = new Uint32Array(0);
  summary: Summary = NOTHING;
  /** What is drawn beside the rows. */
  counts: Counts = NO_COUNTS;
  /** Scrolling, hovering or selecting: rows must not move under the reader. */
  engaged: () => boolean = () => false;
  /** Places that the reader sees, from the first to behind the last. */
  inView: () => readonly [number, number] = () => [0, 0];
  private frozen: { table: Table; changes: number; asOfMs: number } | null = null;
  private seen: Table | null = null;
  /** The rows that the view asks for; `order` is what is shown of them. */
  private wanted: Order | null = null;
  private orderedMs = 0;
  private readonly listeners = new Set<() => void>();
  private readonly drawers = new Set<() => void>();

  constructor(
    readonly feed: Feed,
    public view: View,
  ) {
    this.show(view);
  }

  /** Follows the feed until the page is left. */
  start(): () => void {
    this.changed("table");
    return this.feed.onChange((change) => this.changed(change));
  }

  subscribe = (changed: () => void): (() => void) => {
    this.listeners.add(changed);
    return () => void this.listeners.delete(changed);
  };

  snapshot = (): Summary => this.summary;

  onDraw = (draw: () => void): (() => void) => {
    this.drawers.add(draw);
    return () => void this.drawers.delete(draw);
  };

  /** What is shown: the live figures, or those of the moment it was frozen. */
  get table(): Table | null {
    return this.frozen?.table ?? this.feed.shown;
  }

  /** Only the first rows are there. */
  get isComing(): boolean {
    return this.feed.table === null && this.table !== null;
  }

  /** The node's time of what is shown: "for 5 s" stands still with the figures beside it. */
  get nowMs(): number {
    return this.frozen?.asOfMs ?? this.feed.freshness.nodeMs(Date.now());
  }

  /** Shows another view, at once. */
  setView(view: View): void {
    if (viewText(view) !== viewText(this.view)) this.show(view);
  }

  private show(view: View): void {
    this.view = view;
    if (view.order === "freeze") this.freeze();
    else this.frozen = null;
    this.wanted = this.table === null ? null : new Order(this.table, view, this.wanted);
    this.applyOrder();
  }

  private freeze(): void {
    const table = this.feed.table;
    if (this.frozen !== null || table === null) return;
    this.frozen = { table: copyOf(table), changes: this.feed.changes, asOfMs: this.feed.freshness.asOfMs };
  }

  private changed(change: Change): void {
    const fromMs = performance.now();
    this.take(change);
    measured("weir:render", fromMs);
  }

  private take(change: Change): void {
    if (this.view.order === "freeze") this.freeze();
    if (change === "table") this.newTable();
    const hold = this.frozen !== null || (this.view.order === "steady" && this.engaged());
    if (hold && change !== "table") this.publish();
    else this.applyOrder();
  }

  private newTable(): void {
    const table = this.feed.shown;
    if (this.seen !== null && table !== null && this.seen !== table) this.selection.moveTo(this.seen, table);
    this.seen = table;
    if (this.frozen !== null && this.frozen.table.rows !== table?.rows) this.frozen = null;
    if (this.table !== null) this.wanted = new Order(this.table, this.view, this.wanted);
  }

  /** Takes the order that the sort wants now. */
  applyOrder(): void {
    if (this.wanted !== null) this.order = this.wanted.rows();
    this.orderedMs = Date.now();
    this.publish();
  }

  selected(change: (selection: Selection) => void): void {
    change(this.selection);
    this.publish();
  }

  selectedRows(): Uint32Array {
    return this.order.filter((row) => this.selection.has(row));
  }

  /** Rows and totals are one picture; React renders only where the outline differs. */
  private publish(): void {
    const { table, wanted } = this;
    const before = this.summary;
    if (table !== null && wanted !== null) {
      // Sums of the first rows alone would be taken for those of all.
      this.counts = this.isComing ? NO_COUNTS : wanted.counts();
      const now = this.summarise(table, wanted);
      if (JSON.stringify(now) !== JSON.stringify(before)) this.summary = now;
    }
    for (const draw of this.drawers) draw();
    if (this.summary !== before) for (const changed of this.listeners) changed();
  }

  private summarise(table: Table, wanted: Order): Summary {
    return {
      rows: table.rows,
      matched: this.order.length,
      selected: this.selection.count(this.order.length),
      held: this.held(wanted),
      missed: this.frozen === null ? 0 : this.feed.changes - this.frozen.changes,
      hidden: table.hidden,
      frozenAsOfMs: this.frozen?.asOfMs ?? null,
      isComing: this.isComing,
      ...outlineOf(this.counts),
    };
  }

  private held(wanted: Order): Summary["held"] {
    if (this.view.order !== "steady" || !this.engaged()) return null;
    const count = entering(this.order, wanted.rows(), this.inView());
    return count === null ? null : { ageMs: Date.now() - this.orderedMs, entering: count };
  }
}

export const useSummary = (model: Model): Summary => useSyncExternalStore(model.subscribe, model.snapshot);

/** Figures as they stand; texts do not change and are shared. */
function copyOf(table: Table): Table {
  const columns = [
    ...WIDE,
    ...RATES,
    "status",
    "reason",
    "topRefusal",
    "flags",
    "windowed",
    "buckets",
    "version",
  ] as const;
  const windows = table.windows.map((of) => of && { limit: of.limit.slice(), used: of.used.slice() });
  const copies = Object.fromEntries(columns.map((name) => [name, table[name].slice()]));
  return { ...table, windows, ...copies } as Table;
}
