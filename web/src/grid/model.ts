// Which rows, in which order, with which totals: between the feed and what is drawn.
import { STATUSES } from "../live/codes";
import type { Change, Feed } from "../live/feed";
import { RATES, type Table, WIDE } from "../live/table";
import { measured } from "../ui/measured";
import type { View } from "../url/view";
import { STILL } from "./columns";
import { type Term, filterRows } from "./filter";
import { Selection } from "./selection";
import { moves, sortRows } from "./sort";
import { type Total, tally } from "./totals";

export interface Summary {
  rows: number;
  matched: number;
  selected: number;
  /** Rows that would stand elsewhere, were the order not held. */
  moves: number;
  /** Deltas that came since the view was frozen. */
  missed: number;
  frozenAsOfMs: number | null;
  statuses: readonly number[];
  debts: number;
  totals: readonly Total[];
}

const NOTHING: Summary = {
  rows: 0,
  matched: 0,
  selected: 0,
  moves: 0,
  missed: 0,
  frozenAsOfMs: null,
  statuses: STATUSES.map(() => 0),
  debts: 0,
  totals: [],
};

export class Model {
  readonly selection = new Selection();
  order: Uint32Array = new Uint32Array(0);
  summary: Summary = NOTHING;
  /** Scrolling, hovering or selecting: rows must not move under the reader. */
  engaged: () => boolean = () => false;
  private frozen: { table: Table; deltas: number; asOfMs: number } | null = null;
  private seen: Table | null = null;
  private matching: { table: Table; query: string; terms: readonly Term[]; rows: Uint32Array } | null = null;
  private summing = 0;
  private readonly listeners = new Set<() => void>();
  private readonly drawers = new Set<(force: boolean) => void>();

  constructor(
    readonly feed: Feed,
    public view: View,
  ) {
    this.setView(view);
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

  onDraw(draw: (force: boolean) => void): () => void {
    this.drawers.add(draw);
    return () => void this.drawers.delete(draw);
  }

  /** What is shown: the live figures, or those of the moment it was frozen. */
  get table(): Table | null {
    return this.frozen?.table ?? this.feed.table;
  }

  setView(view: View): void {
    this.view = view;
    if (view.order === "freeze") this.freeze();
    else this.frozen = null;
    this.reorder();
    this.publish(true);
  }

  private freeze(): void {
    const table = this.feed.table;
    if (this.frozen !== null || table === null) return;
    this.frozen = { table: copyOf(table), deltas: this.feed.deltas, asOfMs: this.feed.freshness.asOfMs };
  }

  private changed(change: Change): void {
    const fromMs = performance.now();
    this.take(change);
    measured("weir:render", fromMs);
  }

  private take(change: Change): void {
    if (this.view.order === "freeze") this.freeze();
    if (change === "table") this.newTable();
    const hold = this.frozen !== null || (this.view.order === "hold" && this.engaged());
    if (hold && change !== "table") this.publish(false);
    else {
      this.reorder();
      this.publish(change === "table");
    }
  }

  private newTable(): void {
    const table = this.feed.table;
    if (this.seen !== null && table !== null && this.seen !== table) this.selection.moveTo(this.seen, table);
    this.seen = table;
    if (this.frozen !== null && this.frozen.table.rows !== table?.rows) this.frozen = null;
  }

  /** Takes the order that the sort wants now. */
  reorder(): void {
    const { table } = this;
    if (table !== null) this.order = this.sorted(table);
  }

  private sorted(table: Table): Uint32Array {
    return sortRows(table, this.filtered(table), this.view.sort);
  }

  /** What only names and the like decide is the same each tick. */
  private filtered(table: Table): Uint32Array {
    const { query, terms } = this.view;
    const old = this.matching;
    if (old !== null && old.table === table && old.query === query && old.terms === terms) return old.rows;
    const rows = filterRows(table, query, terms);
    this.matching = terms.every(({ column }) => STILL.has(column)) ? { table, query, terms, rows } : null;
    return rows;
  }

  applyOrder(): void {
    this.reorder();
    this.publish(false);
  }

  selected(change: (selection: Selection) => void): void {
    change(this.selection);
    this.publish(false);
  }

  selectedRows(): Uint32Array {
    return this.order.filter((row) => this.selection.has(row));
  }

  /** Rows are drawn at once; totals wait for the next idle moment, so that they never delay a picture. */
  private publish(force: boolean): void {
    for (const draw of this.drawers) draw(force);
    if (this.summing === 0) this.summing = whenIdle(() => this.sum());
  }

  private sum(): void {
    const { table } = this;
    this.summing = 0;
    if (table !== null) this.summary = this.summarise(table);
    for (const changed of this.listeners) changed();
  }

  private summarise(table: Table): Summary {
    const held = this.view.order === "hold" && this.engaged();
    return {
      rows: table.rows,
      matched: this.order.length,
      selected: this.selection.count(this.order.length),
      moves: held ? moves(this.order, this.sorted(table)) : 0,
      missed: this.frozen === null ? 0 : this.feed.deltas - this.frozen.deltas,
      frozenAsOfMs: this.frozen?.asOfMs ?? null,
      ...tally(table, this.order),
    };
  }
}

const IDLE_MS_MOST = 200;

// Safari has no idle callbacks.
const whenIdle = (run: () => void): number =>
  window.requestIdleCallback?.(run, { timeout: IDLE_MS_MOST }) ?? window.setTimeout(run);

/** Figures as they stand; texts do not change and are shared. */
function copyOf(table: Table): Table {
  const columns = [
    ...WIDE.map(([name]) => name),
    ...RATES.map(([name]) => name),
    "status",
    "reason",
    "topRefusal",
    "flags",
    "version",
  ] as const;
  return { ...table, ...Object.fromEntries(columns.map((name) => [name, table[name].slice()])) } as Table;
}
