// The header, the focus and the keys around a LiveGrid.
import { memo, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";
import { onTheme, token } from "../ui/theme";
import { browserZone } from "../ui/time";
import { type Place, cameFromWithin, isPlain, keep, onLeave } from "../url/router";
import { type ShownColumn, type View, boundedWidth, columnsText } from "../url/view";
import { LiveGrid, TICK_WIDTH, type Layout, layoutOf } from "./LiveGrid";
import { type Spot, move } from "./keyboard";
import { type Model, useSummary } from "./model";
import { narrowed, useRoom } from "./narrow";
import { clicked } from "./sort";

const ROW_HEIGHT = { compact: 28, roomy: 38 } as const;
/** So long after a scroll rows still do not move. */
const STILL_MS = 1_200;
const REPAINT_MS = 30_000;
const NUDGE = 16;
const WATCH_MS = 200;

interface Props {
  model: Model;
  view: View;
  setView: (changes: Partial<View>) => void;
  open: (id: string) => void;
  /** Where its reader was when it was left; null: at the top. */
  place: Place | null;
}

/** What the grid's figures are drawn with, outside React. */
function hostOf(model: Model) {
  let colours = { line: "", fill: "" };
  const refresh = () => {
    colours = { line: token("--spark"), fill: token("--spark-fill") };
  };
  refresh();
  let watched: readonly number[] = [];
  let timer = 0;
  // While somebody scrolls, each picture shows other rows: only those that stay are worth a message.
  const watch = (rows: readonly number[]) => {
    watched = rows;
    if (timer !== 0) return;
    model.feed.watch(rows);
    timer = window.setTimeout(() => {
      timer = 0;
      model.feed.watch(watched);
    }, WATCH_MS);
  };
  const zoneOf = { utc: () => "UTC", browser: browserZone, campaign: null };
  return {
    refresh,
    host: {
      around: () => ({
        nowMs: model.nowMs,
        zoneOf:
          zoneOf[model.view.clock] ??
          ((table: NonNullable<Model["table"]>, row: number) => table.zones[row]!),
      }),
      sparkOf: (row: number) => model.feed.sparks.get(row),
      watch,
      colours: () => colours,
    },
  };
}

/** Tells the model when rows must not move under the reader, and the grid what is pointed at; returns how to stop. */
function watchReader(
  model: Model,
  grid: LiveGrid,
  scroller: HTMLElement,
  body: HTMLElement,
  scrolled: () => void,
): () => void {
  let scrolledMs = 0;
  let hovering = false;
  const onPoint = (event: Event) => grid.explain(event.target);
  const onScroll = () => {
    scrolledMs = Date.now();
    scrolled();
  };
  const onEnter = () => {
    hovering = true;
  };
  const onLeave = () => {
    hovering = false;
  };
  model.engaged = () =>
    hovering ||
    Date.now() - scrolledMs < STILL_MS ||
    model.selection.count(1) > 0 ||
    scroller.contains(document.activeElement);
  model.inView = () => grid.inView();
  scroller.addEventListener("scroll", onScroll, { passive: true });
  body.addEventListener("pointerenter", onEnter);
  body.addEventListener("pointerleave", onLeave);
  body.addEventListener("pointerover", onPoint);
  body.addEventListener("focusin", onPoint);
  return () => {
    scroller.removeEventListener("scroll", onScroll);
    body.removeEventListener("pointerenter", onEnter);
    body.removeEventListener("pointerleave", onLeave);
    body.removeEventListener("pointerover", onPoint);
    body.removeEventListener("focusin", onPoint);
    model.engaged = () => false;
    model.inView = () => [0, 0];
  };
}

/** Makes the LiveGrid and draws it whenever something differs. */
function useLiveGrid(
  model: Model,
  view: React.RefObject<HTMLDivElement | null>,
  body: React.RefObject<HTMLDivElement | null>,
) {
  const grid = useRef<LiveGrid | null>(null);
  useLayoutEffect(() => {
    if (view.current === null || body.current === null) return;
    const { host, refresh } = hostOf(model);
    const made = new LiveGrid(view.current, body.current, host, model.selection);
    grid.current = made;
    let asked = 0;
    const soon = () => {
      made.measure();
      if (asked === 0)
        asked = requestAnimationFrame(() => {
          asked = 0;
          made.draw();
        });
    };
    const sized = new ResizeObserver(soon);
    sized.observe(view.current);
    const timer = window.setInterval(() => made.draw(true), REPAINT_MS);
    const stops = [
      watchReader(model, made, view.current, body.current, soon),
      model.onDraw(() => model.table !== null && made.setRows(model.table, model.order)),
      onTheme(() => {
        refresh();
        made.draw(true);
      }),
      () => sized.disconnect(),
      () => window.clearInterval(timer),
      () => cancelAnimationFrame(asked),
    ];
    return () => stops.forEach((stop) => stop());
  }, [model, view, body]);
  return grid;
}

/** Brings the reader back once there are rows, and keeps where the reader is whenever the page is left or was scrolled. */
function usePlaceKept(
  model: Model,
  grid: React.RefObject<LiveGrid | null>,
  place: Place | null,
  focus: (position: number, column: number) => void,
) {
  const wanted = useRef(place);
  useEffect(() => {
    const restore = () => {
      if (wanted.current === null || model.order.length === 0 || model.isComing || grid.current === null)
        return;
      const { column } = wanted.current;
      const position = grid.current.restore(wanted.current);
      wanted.current = null;
      if (position >= 0 && cameFromWithin() && document.activeElement === document.body)
        focus(position, column);
    };
    const save = () => {
      const found = grid.current?.place() ?? null;
      if (wanted.current === null && found !== null) keep({ place: found });
    };
    restore();
    const stops = [model.onDraw(restore), onLeave(save)];
    return () => stops.forEach((stop) => stop());
  }, [model, grid, focus]);
}

export const Grid = memo(function Grid({ model, view, setView, open, place }: Props) {
  const viewRef = useRef<HTMLDivElement>(null);
  const bodyRef = useRef<HTMLDivElement>(null);
  const grid = useLiveGrid(model, viewRef, bodyRef);
  const { density, clock } = view;
  const columns = narrowed(view.columns, useRoom());
  // Compared as text: each address is parsed anew, and another layout makes all rows anew.
  const layout = useMemo(() => layoutOf(columns, ROW_HEIGHT[density]), [columnsText(columns), density]);
  const spot = useRef<Spot>({ position: 0, column: 1 });
  useLayoutEffect(() => {
    grid.current?.setLayout(layout);
    // Cells that get the focus must not hide behind pinned ones.
    viewRef.current?.style.setProperty(
      "scroll-padding-left",
      `${TICK_WIDTH + layout.columns.reduce((sum, { width, pinned }) => sum + (pinned ? width : 0), 0)}px`,
    );
    if (model.table !== null) grid.current?.setRows(model.table, model.order);
  }, [layout, grid, model]);
  useEffect(() => grid.current?.draw(true), [clock, grid]);

  const focus = useCallback(
    (to: Spot) => {
      spot.current = to;
      if (to.position >= 0) grid.current?.focus(to.position, to.column);
      else viewRef.current?.querySelectorAll<HTMLElement>('[role="columnheader"]')[to.column]?.focus();
    },
    [grid],
  );

  const back = useCallback((position: number, column: number) => focus({ position, column }), [focus]);
  usePlaceKept(model, grid, place, back);

  const lastToggled = useRef(-1);
  const toggle = (row: number, range: boolean) =>
    model.selected((selection) => {
      if (range) rangeOf(model, lastToggled.current, row).forEach((one) => selection.set(one, true));
      else selection.toggle(row);
      lastToggled.current = row;
    });
  const onKey = (event: React.KeyboardEvent) => {
    const extent = {
      rows: model.order.length,
      columns: layout.columns.length + 1,
      page: grid.current?.page() ?? 1,
    };
    const to = event.altKey ? null : move(spot.current, event.key, event.ctrlKey || event.metaKey, extent);
    if (to !== null) {
      event.preventDefault();
      return focus(to);
    }
    const row = model.order[spot.current.position];
    if (row === undefined || model.table === null) return;
    if (event.key === "Enter") open(model.table.ids[row]!);
    if (event.key !== " ") return;
    event.preventDefault();
    toggle(row, event.shiftKey);
  };

  const onClick = (event: React.MouseEvent) => {
    const at = grid.current?.spotOf(event.target) ?? null;
    if (at === null) return;
    focus({ position: at.position, column: at.column });
    const isLink = event.target instanceof Element && event.target.closest("a") !== null;
    if (isLink && isPlain(event) && model.table !== null) {
      event.preventDefault();
      open(model.table.ids[at.row]!);
    }
    if (at.column === 0) toggle(at.row, event.shiftKey);
  };

  const onDoubleClick = (event: React.MouseEvent) => {
    const at = grid.current?.spotOf(event.target) ?? null;
    if (at !== null && at.column > 0 && model.table !== null) open(model.table.ids[at.row]!);
  };

  const { matched, selected } = useSummary(model);
  return (
    <div
      className="grid"
      role="grid"
      aria-label="Budgets"
      aria-multiselectable="true"
      aria-rowcount={matched + 1}
      aria-colcount={layout.columns.length + 1}
      onKeyDown={onKey}
    >
      <div className="grid-view" ref={viewRef}>
        <GridHead
          layout={layout}
          view={view}
          model={model}
          matched={matched}
          selected={selected}
          setView={setView}
        />
        <div
          className="grid-body"
          role="rowgroup"
          ref={bodyRef}
          onClick={onClick}
          onDoubleClick={onDoubleClick}
        />
      </div>
    </div>
  );
});

/** Rows between two as they are shown. */
function rangeOf(model: Model, from: number, to: number): Uint32Array {
  const [a, b] = [model.order.indexOf(from), model.order.indexOf(to)];
  return a < 0 || b < 0 ? Uint32Array.of(to) : model.order.slice(Math.min(a, b), Math.max(a, b) + 1);
}

interface GridHeadProps extends Pick<Props, "model" | "view" | "setView"> {
  layout: Layout;
  matched: number;
  selected: number;
}

/** Rendered anew only when one of these differs: not at each tick. */
const GridHead = memo(function GridHead({ layout, model, view, matched, selected, setView }: GridHeadProps) {
  const { columns, sort } = view;
  const all = selected > 0 && selected === matched;
  const change = (key: string, changes: Partial<ShownColumn>) =>
    setView({ columns: columns.map((column) => (column.key === key ? { ...column, ...changes } : column)) });
  const tickAll = () => model.selected((selection) => (all ? selection.clear() : selection.selectAll()));
  let left = TICK_WIDTH;
  return (
    <div className="grid-head" role="rowgroup">
      <div className="grid-row" role="row" aria-rowindex={1}>
        <div
          className="grid-cell cell-tick pinned"
          role="columnheader"
          aria-colindex={1}
          style={{ width: TICK_WIDTH, left: 0 }}
          tabIndex={-1}
          data-all={all ? "yes" : selected > 0 ? "some" : "no"}
          onClick={tickAll}
          onKeyDown={(event) => event.key === " " && tickAll()}
        >
          <span className="hidden-text">{all ? "clear the selection" : `select all ${matched}`}</span>
        </div>
        {layout.columns.map(({ column, width, pinned }, i) => {
          const at = pinned ? left : null;
          if (pinned) left += width;
          return (
            <HeadCell
              key={column.key}
              index={i + 1}
              column={column}
              width={width}
              left={at}
              sort={sort}
              setView={setView}
              columns={columns}
              resize={(wide) => change(column.key, { width: boundedWidth(wide) })}
            />
          );
        })}
      </div>
    </div>
  );
});

interface HeadProps {
  index: number;
  column: Layout["columns"][number]["column"];
  width: number;
  left: number | null;
  sort: Model["view"]["sort"];
  columns: Model["view"]["columns"];
  setView: Props["setView"];
  resize: (width: number) => void;
}

/** Puts the column `moved` where `target` stands. */
export function reordered(
  columns: readonly ShownColumn[],
  moved: string,
  target: string,
): readonly ShownColumn[] {
  const from = columns.findIndex(({ key }) => key === moved);
  const to = columns.findIndex(({ key }) => key === target);
  if (from < 0 || to < 0 || from === to) return columns;
  const rest = columns.filter((_, i) => i !== from);
  return [...rest.slice(0, to), columns[from]!, ...rest.slice(to)];
}

/** A drag of a column's edge: the width while it lasts, and what begins it. */
function useResize(
  width: number,
  resize: (width: number) => void,
): [number, (event: React.PointerEvent<HTMLElement>) => void] {
  const [live, setLive] = useState<number | null>(null);
  const begin = (event: React.PointerEvent<HTMLElement>) => {
    event.preventDefault();
    event.stopPropagation();
    const handle = event.currentTarget;
    const from = event.clientX;
    handle.setPointerCapture(event.pointerId);
    handle.onpointermove = (moved) => setLive(boundedWidth(width + moved.clientX - from));
    handle.onpointerup = (done) => {
      handle.onpointermove = null;
      handle.onpointerup = null;
      setLive(null);
      resize(width + done.clientX - from);
    };
  };
  return [live ?? width, begin];
}

/** Enter sorts; Alt with an arrow moves the column, with Shift it resizes it. True if the key was meant for it. */
function headKey(
  event: React.KeyboardEvent,
  { column, width, columns, setView, resize }: HeadProps,
  onSort: (add: boolean) => void,
): boolean {
  if (event.key === "Enter" || event.key === " ") {
    onSort(event.shiftKey);
    return true;
  }
  const step = event.key === "ArrowLeft" ? -1 : event.key === "ArrowRight" ? 1 : 0;
  if (!event.altKey || step === 0) return false;
  const other = columns[columns.findIndex(({ key }) => key === column.key) + step];
  if (event.shiftKey) resize(width + step * NUDGE);
  else if (other !== undefined) setView({ columns: reordered(columns, column.key, other.key) });
  return true;
}

function HeadCell(props: HeadProps) {
  const { index, column, width, left, sort, columns, setView, resize } = props;
  const [shown, beginResize] = useResize(width, resize);
  const place = sort.findIndex((key) => key.column === column.key);
  const key = sort[place];
  const direction = key === undefined ? "none" : key.descending ? "descending" : "ascending";
  const figures = column.kind === "amount" || column.kind === "range";
  const onSort = (add: boolean) => setView({ sort: clicked(sort, column.key, figures, add) });
  const onKey = (event: React.KeyboardEvent) => {
    if (!headKey(event, props, onSort)) return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div
      className={`grid-cell grid-title ${column.align === "end" ? "cell-end" : "cell-start"} ${left === null ? "" : "pinned"}`}
      role="columnheader"
      aria-colindex={index + 1}
      aria-sort={direction}
      tabIndex={-1}
      title={`${column.about}. Shift adds to the sort; Alt with arrows moves it, with Shift resizes it.`}
      data-sort={direction}
      style={left === null ? { width: shown } : { width: shown, left }}
      onClick={(event) => onSort(event.shiftKey)}
      onKeyDown={onKey}
      draggable
      onDragStart={(event) => event.dataTransfer.setData("text/weir-column", column.key)}
      onDragOver={(event) => event.preventDefault()}
      onDrop={(event) =>
        setView({ columns: reordered(columns, event.dataTransfer.getData("text/weir-column"), column.key) })
      }
    >
      <span className="grid-title-text">{column.title}</span>
      {key !== undefined && (
        <span className="grid-sort" aria-hidden="true">
          {key.descending ? "↓" : "↑"}
          {sort.length > 1 ? place + 1 : ""}
        </span>
      )}
      <span
        className="grid-resize"
        aria-hidden="true"
        onPointerDown={beginResize}
        onClick={(event) => event.stopPropagation()}
        draggable={false}
      />
    </div>
  );
}
