// The body of the grid: as many row elements as fit, written directly. React is not asked when figures change.
import type { Spark } from "../live/codec";
import type { Table } from "../live/table";
import { type Cell, type Surroundings, cellOf, isOfParts, roomOf } from "./cells";
import type { Place } from "../url/router";
import { type Column, columnOf } from "./columns";
import type { Selection } from "./selection";
import { drawSpark } from "./sparkline";

export const TICK_WIDTH = 36;
const OVERSCAN = 4;
/** Rows that a browser would show at most; the node sends sparklines of no more. */
const WATCHED_MOST = 256;
const SPARK_PAD = 10;
/** Room at the right of a curve for its number; a column that was made narrower has the curve alone. */
const SPARK_NUMBER = 66;

export interface Layout {
  columns: readonly { column: Column; width: number; pinned: boolean }[];
  rowHeight: number;
}

export interface Host {
  around(): Surroundings;
  sparkOf(row: number): Spark | undefined;
  watch(rows: readonly number[]): void;
  /** Colours of the sparkline, in the present theme. */
  colours(): { line: string; fill: string };
}

/** One row element, which stands for one budget after the other. */
class PoolRow {
  readonly element = document.createElement("div");
  position = -1;
  row = -1;
  private version = -1;
  private readonly cells: Cell[] = [];
  private readonly elements: HTMLElement[] = [];
  private readonly tick: HTMLElement;
  private selected: boolean | null = null;
  private explained = false;

  /** `digit`: pixels of one. */
  constructor(layout: Layout, digit: number) {
    this.element.className = "grid-row";
    this.element.setAttribute("role", "row");
    this.tick = this.cell(0, TICK_WIDTH, 0);
    this.tick.classList.add("cell-tick");
    let left = TICK_WIDTH;
    layout.columns.forEach(({ column, width, pinned }, i) => {
      const element = this.cell(i + 1, width, pinned ? left : null);
      element.dataset.column = column.key;
      element.classList.add(column.align === "end" ? "cell-end" : "cell-start");
      if (isOfParts(column)) element.classList.add("cell-parts");
      if (pinned) left += width;
      this.cells.push(cellOf(element, column, roomOf(column, width, digit)));
    });
  }

  private cell(index: number, width: number, pinnedAt: number | null): HTMLElement {
    const element = document.createElement("div");
    element.setAttribute("role", "gridcell");
    element.setAttribute("aria-colindex", String(index + 1));
    element.tabIndex = -1;
    element.className = "grid-cell";
    element.style.width = `${width}px`;
    if (pinnedAt !== null) {
      element.classList.add("pinned");
      element.style.left = `${pinnedAt}px`;
    }
    this.element.append(element);
    this.elements.push(element);
    return element;
  }

  at(column: number): HTMLElement | undefined {
    return this.elements[column];
  }

  place(position: number, rowHeight: number): void {
    if (position === this.position) return;
    this.position = position;
    this.element.style.top = `${position * rowHeight}px`;
    this.element.setAttribute("aria-rowindex", String(position + 2));
  }

  /** `mayWait`: new figures of the same row need not be drawn yet. */
  paint(
    table: Table,
    row: number,
    around: Surroundings,
    selected: boolean,
    force: boolean,
    mayWait: boolean,
  ): void {
    if (selected !== this.selected) this.select(selected);
    const version = table.version[row]!;
    if (!force && row === this.row && (mayWait || version === this.version)) return;
    this.row = row;
    this.version = version;
    for (const cell of this.cells) cell.paint(table, row, around);
    if (this.explained) this.explain(table, around);
  }

  /** Writes the titles. Only of the row that is pointed at or has the focus: exact amounts of all would double the work of each update. */
  explain(table: Table, around: Surroundings): void {
    this.explained = true;
    this.cells.forEach((cell, i) => {
      this.elements[i + 1]!.title = cell.about?.(table, this.row, around) ?? "";
    });
  }

  plain(): void {
    this.explained = false;
    for (const element of this.elements) element.removeAttribute("title");
  }

  private select(selected: boolean): void {
    this.selected = selected;
    this.element.setAttribute("aria-selected", String(selected));
    this.tick.setAttribute("aria-label", selected ? "selected" : "not selected");
  }
}

export class LiveGrid {
  private pool = new Map<number, PoolRow>();
  private spare: PoolRow[] = [];
  private layout: Layout = { columns: [], rowHeight: 28 };
  private table: Table | null = null;
  private order: Uint32Array = new Uint32Array(0);
  private readonly canvas = document.createElement("canvas");
  /** The grid's tab stop; its row stays in the document, wherever the view is. */
  private stop = { position: 0, column: 1 };
  private stopCell: HTMLElement | null = null;
  private explained: PoolRow | null = null;
  /** Pixels of a digit. */
  private digit = 0;
  /** How the view stood when it was last measured. To ask it at any time would make the browser lay out at once. */
  private viewed = { top: 0, height: 0 };
  /** What the canvas shows: new curves come each half minute, updates of rows each other second. */
  private drawn: { first: number; sparks: (Spark | undefined)[] } = { first: 0, sparks: [] };

  constructor(
    private readonly view: HTMLElement,
    private readonly body: HTMLElement,
    private readonly host: Host,
    private readonly selection: Selection,
  ) {
    this.canvas.className = "grid-sparks";
    this.canvas.setAttribute("aria-hidden", "true");
  }

  setLayout(layout: Layout): void {
    this.layout = layout;
    this.pool.clear();
    this.explained = null;
    this.body.replaceChildren(this.canvas);
    this.body.style.setProperty("--row", `${layout.rowHeight}px`);
    this.body.style.width = `${TICK_WIDTH + layout.columns.reduce((sum, { width }) => sum + width, 0)}px`;
    this.resize();
    this.measure();
    this.digit = this.digitWidth();
    this.prepare();
    this.draw(true);
  }

  /** To be called when the view was scrolled or resized. */
  measure(): void {
    const { scrollTop, scrollLeft, clientHeight } = this.view;
    this.viewed = { top: scrollTop, height: clientHeight };
    // Each cell that sticks is a layer of its own, so they stick only while they have to.
    const aside = scrollLeft > 0 ? "yes" : "no";
    if (this.body.dataset.aside !== aside) this.body.dataset.aside = aside;
  }

  /** As the reader's fonts and settings make it. */
  private digitWidth(): number {
    const probe = document.createElement("span");
    probe.textContent = "0123456789";
    probe.style.position = "absolute";
    this.body.append(probe);
    const { width } = probe.getBoundingClientRect();
    probe.remove();
    return width / 10;
  }

  /** Makes the rows that a view will want, so that the first picture does not wait for them. */
  private prepare(): void {
    this.spare = Array.from({ length: this.most() }, () => this.make());
  }

  setRows(table: Table, order: Uint32Array): void {
    const another = table !== this.table;
    const resized = order.length !== this.order.length;
    this.table = table;
    this.order = order;
    this.draw(another);
    if (resized) this.resize();
  }

  private resize(): void {
    this.body.style.height = `${this.order.length * this.layout.rowHeight}px`;
  }

  /** Rows that fit, for a page up or down. */
  page(): number {
    return Math.max(1, Math.floor(this.viewed.height / this.layout.rowHeight) - 2);
  }

  /** How many rows are in the document. Always as many: one that comes or goes costs more than one that moves. */
  private most(): number {
    return Math.ceil(this.viewed.height / this.layout.rowHeight) + 1 + 2 * OVERSCAN;
  }

  private span(): [first: number, end: number] {
    const { rowHeight } = this.layout;
    // Where the browser will scroll to if there are fewer rows than before.
    const last = Math.max(0, (this.order.length + 1) * rowHeight - this.viewed.height);
    const top = Math.min(this.viewed.top, last);
    const latest = this.order.length - this.most();
    const first = Math.max(0, Math.min(Math.floor(top / rowHeight) - OVERSCAN, latest));
    return [first, Math.min(this.order.length, first + this.most())];
  }

  /** Brings rows and figures up to date. `force` paints rows that did not change: other columns, another clock. */
  draw(force = false): void {
    const { table } = this;
    if (table === null) return;
    const [first, end] = this.span();
    this.recycle(first, end);
    const around = this.host.around();
    for (let position = first; position < end; position += 1)
      this.paint(table, position, around, force, !this.isSeen(position));
    if (this.order.length > 0) this.paint(table, this.kept(), around, force, false);
    for (const row of this.spare) row.element.hidden = true;
    this.markStop();
    this.host.watch(
      Array.from(this.order.subarray(first, Math.min(end, first + WATCHED_MOST))).sort((a, b) => a - b),
    );
    this.drawSparks(first, end, force);
  }

  private recycle(first: number, end: number): void {
    for (const [position, row] of this.pool) {
      if ((position >= first && position < end) || (position === this.kept() && position < this.order.length))
        continue;
      this.pool.delete(position);
      this.spare.push(row);
    }
  }

  /** Places in view, from the first to behind the last. */
  inView(): [first: number, end: number] {
    const { top, height } = this.viewed;
    const { rowHeight } = this.layout;
    return [Math.floor(top / rowHeight), Math.ceil((top + height - this.body.offsetTop) / rowHeight)];
  }

  /** Rows above and below the view are there for the next scroll, which draws them anew. */
  private isSeen(position: number): boolean {
    const { top, height } = this.viewed;
    const { rowHeight } = this.layout;
    return height === 0 || ((position + 1) * rowHeight > top && position * rowHeight < top + height);
  }

  private paint(
    table: Table,
    position: number,
    around: Surroundings,
    force: boolean,
    mayWait: boolean,
  ): void {
    const row = this.order[position]!;
    const element = this.pool.get(position) ?? this.take(position);
    element.paint(table, row, around, this.selection.has(row), force, mayWait);
  }

  private take(position: number): PoolRow {
    const row = this.spare.pop() ?? this.make();
    row.element.hidden = false;
    row.place(position, this.layout.rowHeight);
    if (row.element.parentNode === null) this.body.append(row.element);
    this.pool.set(position, row);
    return row;
  }

  private make(): PoolRow {
    const row = new PoolRow(this.layout, this.digit);
    row.element.style.height = `${this.layout.rowHeight}px`;
    return row;
  }

  /** Scrolls a row into view, draws it and gives its cell the focus. */
  focus(position: number, column: number): void {
    this.tabStop(position, column);
    this.reveal(position);
    this.draw();
    const cell = this.pool.get(position)?.at(column);
    cell?.focus({ preventScroll: true });
    cell?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  /** Where the reader is; null while there are no rows. */
  place(): Place | null {
    const position = this.kept();
    const row = this.order[position];
    if (this.table === null || row === undefined) return null;
    const { top } = this.viewed;
    const below = position * this.layout.rowHeight - top;
    return { id: this.table.ids[row]!, column: this.stop.column, below, top, left: this.view.scrollLeft };
  }

  /** Brings the reader back there, wherever the budget stands by now; answers its position, -1 if it is not among the rows. */
  restore(place: Place): number {
    const { table, layout, viewed } = this;
    const position = table === null ? -1 : this.order.findIndex((row) => table.ids[row] === place.id);
    const wasSeen = place.below >= 0 && place.below < viewed.height;
    this.view.scrollTop = position >= 0 && wasSeen ? position * layout.rowHeight - place.below : place.top;
    this.view.scrollLeft = place.left;
    if (position >= 0) this.tabStop(position, place.column);
    this.measure();
    this.draw();
    return position;
  }

  private reveal(position: number): void {
    const { rowHeight } = this.layout;
    const head = this.body.offsetTop;
    const top = position * rowHeight;
    const low = top + rowHeight + head - this.viewed.height;
    if (top < this.viewed.top) this.view.scrollTop = top;
    else if (low > this.viewed.top) this.view.scrollTop = low;
    else return;
    this.measure();
  }

  /** Which budget and column an element belongs to. */
  spotOf(target: EventTarget | null): { position: number; row: number; column: number } | null {
    const cell = target instanceof Element ? target.closest<HTMLElement>(".grid-cell") : null;
    const found = this.rowOf(cell);
    if (cell === null || found === undefined) return null;
    return {
      position: found.position,
      row: found.row,
      column: Number(cell.getAttribute("aria-colindex")) - 1,
    };
  }

  /** Gives the row of an element its titles, and takes them from the row that had them. */
  explain(target: EventTarget | null): void {
    const row = this.rowOf(target);
    if (this.table === null || row === undefined || row === this.explained) return;
    this.explained?.plain();
    this.explained = row;
    row.explain(this.table, this.host.around());
  }

  private rowOf(target: EventTarget | null): PoolRow | undefined {
    const element = target instanceof Element ? target.closest(".grid-row") : null;
    return [...this.pool.values()].find((row) => row.element === element);
  }

  /** Makes one cell the grid's tab stop, as soon as it is drawn. */
  tabStop(position: number, column: number): void {
    this.stop = { position, column };
  }

  /** Where the stop's row stands when a filter has left fewer. */
  private kept(): number {
    return Math.min(this.stop.position, this.order.length - 1);
  }

  private markStop(): void {
    const cell = this.pool.get(this.kept())?.at(this.stop.column) ?? null;
    if (cell === this.stopCell) return;
    if (this.stopCell !== null) this.stopCell.tabIndex = -1;
    if (cell !== null) cell.tabIndex = 0;
    this.stopCell = cell;
  }

  private drawSparks(first: number, end: number, force: boolean): void {
    const place = this.sparkPlace();
    const canvas = place === null ? null : this.canvas.getContext("2d");
    this.canvas.hidden = canvas === null;
    if (place === null || canvas === null) return;
    const sparks = Array.from(this.order.subarray(first, end), (row) => this.host.sparkOf(row));
    const stand = first === this.drawn.first && sameItems(sparks, this.drawn.sparks);
    if (stand && !force) return;
    this.drawn = { first, sparks };
    const { rowHeight } = this.layout;
    // As high as it ever gets: a canvas of another size is a new one.
    this.fitCanvas(canvas, place.width, this.most() * rowHeight);
    this.canvas.style.transform = `translate(${place.left}px, ${first * rowHeight}px)`;
    const { line, fill } = this.host.colours();
    [canvas.strokeStyle, canvas.fillStyle, canvas.lineWidth] = [line, fill, 1.25];
    const [wide, high] = [place.width - 2 * SPARK_PAD, rowHeight - 12];
    sparks.forEach((spark, i) => {
      if (spark !== undefined && spark.filled > 1)
        drawSpark(canvas, spark, SPARK_PAD, i * rowHeight + 6, wide, high);
    });
  }

  private sparkPlace(): { left: number; width: number } | null {
    let left = TICK_WIDTH;
    for (const { column, width } of this.layout.columns) {
      if (column.canvas === true) return { left, width: width < column.width ? width : width - SPARK_NUMBER };
      left += width;
    }
    return null;
  }

  private fitCanvas(canvas: CanvasRenderingContext2D, width: number, height: number): void {
    const ratio = window.devicePixelRatio || 1;
    const [pixelsWide, pixelsHigh] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (this.canvas.width === pixelsWide && this.canvas.height === pixelsHigh) {
      canvas.clearRect(0, 0, width, height);
      return;
    }
    [this.canvas.width, this.canvas.height] = [pixelsWide, pixelsHigh];
    [this.canvas.style.width, this.canvas.style.height] = [`${width}px`, `${height}px`];
    canvas.scale(ratio, ratio);
  }
}

const sameItems = <T>(a: readonly T[], b: readonly T[]): boolean =>
  a.length === b.length && a.every((item, i) => item === b[i]);

/** Pinned columns first, each group in its own order. */
export function layoutOf(
  columns: readonly { key: string; width: number; pinned: boolean }[],
  rowHeight: number,
): Layout {
  const known = columns.flatMap(({ key, width, pinned }) => {
    const column = columnOf(key);
    return column === undefined ? [] : [{ column, width, pinned }];
  });
  return {
    columns: [...known.filter(({ pinned }) => pinned), ...known.filter(({ pinned }) => !pinned)],
    rowHeight,
  };
}
