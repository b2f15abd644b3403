import { useCallback, useEffect, useMemo, useRef, useState, useSyncExternalStore } from "react";
import type { Me } from "../api/types";
import { Grid } from "../grid/Grid";
import type { Term } from "../grid/filter";
import { Model, type Summary, useSummary } from "../grid/model";
import { STATUSES, words } from "../live/codes";
import type { Feed } from "../live/feed";
import { LiveText } from "../ui/LiveText";
import { announce } from "../ui/announce";
import { Choice, Chip, Empty } from "../ui/parts";
import { budgets, count } from "../ui/numbers";
import { useKeys } from "../ui/keys";
import { browserZone, exactTime, span } from "../ui/time";
import { keepList, seenOf } from "../url/list";
import { type Place, addressOf, go, kept } from "../url/router";
import { DEFAULT_VIEW, type View, changedView, parseView, termText, viewText } from "../url/view";
import { BulkDialog } from "./BulkDialog";
import { ColumnMenu } from "./ColumnMenu";
import { CreateDialog } from "./CreateDialog";
import { FilterChips, FilterMenu } from "./FilterMenu";
import { KeysDialog } from "./KeysDialog";
import { Totals } from "./Totals";
import { type Deed, UndoBar } from "./UndoBar";
import { UnreadChip, unreadWords } from "./UnreadChip";
import { ViewMenu } from "./ViewMenu";
import type { Intent } from "./bulk";
import { saveCsv } from "./csv";

interface Props {
  feed: Feed;
  me: Me | null;
  search: string;
}

type SetView = (changes: Partial<View>) => void;

/**
 * The view follows the address, and the address the view. A search or a sort changes the rows first, and the address after the next
 * picture: neither the history nor React delays it. Fields of menus show the view itself, so they cannot wait.
 */
function useView(model: Model, search: string): [View, SetView] {
  const view = useMemo(() => parseView(search), [search]);
  useEffect(() => model.setView(view), [model, view]);
  useEffect(() => model.start(), [model]);
  const pending = useRef({ replace: true, stop: () => {} });
  useEffect(() => () => pending.current.stop(), []);
  const setView = useCallback(
    (changes: Partial<View>) => {
      model.setView(changedView(model.view, changes));
      pending.current.stop();
      // Typing would fill the history with half words.
      pending.current.replace &&= "query" in changes || "columns" in changes;
      const write = () => {
        const text = viewText(model.view);
        const { replace } = pending.current;
        pending.current.replace = true;
        go(addressOf("campaigns") + (text === "" ? "" : `?${text}`), replace);
      };
      if ("query" in changes || "sort" in changes) pending.current.stop = afterPicture(write);
      else write();
    },
    [model],
  );
  return [view, setView];
}

/** Runs when the next picture is on its way; returns how to prevent it. */
function afterPicture(run: () => void): () => void {
  let timer = 0;
  const frame = requestAnimationFrame(() => {
    timer = window.setTimeout(run);
  });
  return () => {
    cancelAnimationFrame(frame);
    window.clearTimeout(timer);
  };
}

/** The text shows what was typed at once; the address, and whoever else changes it, follow. */
function SearchField({
  query,
  setView,
  field,
}: {
  query: string;
  setView: SetView;
  field: React.RefObject<HTMLInputElement | null>;
}) {
  const [text, setText] = useState(query);
  useEffect(() => setText(query), [query]);
  return (
    <label className="search">
      <span className="hidden-text">Search budgets</span>
      <input
        ref={field}
        type="search"
        placeholder="Search name, handle or id   /"
        value={text}
        onChange={(event) => {
          setText(event.target.value);
          setView({ query: event.target.value });
        }}
        onKeyDown={(event) => event.key === "ArrowDown" && toRows(event)}
      />
    </label>
  );
}

/** From the search straight to what it found, past all buttons in between. */
function toRows(event: React.KeyboardEvent): void {
  event.preventDefault();
  document.querySelector<HTMLElement>('[role="gridcell"][tabindex="0"]')?.focus();
}

type Open = { kind: "bulk"; intent: Intent } | { kind: "create" } | { kind: "keys" } | null;

export function CampaignsPage({ feed, me, search }: Props) {
  const [model] = useState(() => new Model(feed, parseView(search)));
  const [view, setView] = useView(model, search);
  const [open, setOpen] = useState<Open>(null);
  const [deed, setDeed] = useState<Deed | null>(null);
  const [place] = useState(() => placeOf(view));
  const openCampaign = useCallback(
    (id: string) => {
      const text = viewText(model.view);
      if (model.table !== null) keepList({ text, ids: model.table.ids, order: model.order.slice() }, id);
      go(addressOf("campaign", id), false, { list: text });
    },
    [model],
  );
  const searchField = useRef<HTMLInputElement>(null);
  const may = me?.role === "operate";
  const isComing = useSyncExternalStore(model.subscribe, () => model.summary.isComing);
  const close = () => setOpen(null);
  useKeys({
    "/": () => searchField.current?.focus(),
    "?": () => setOpen({ kind: "keys" }),
    f: () => setView({ order: view.order === "freeze" ? "steady" : "freeze" }),
    Escape: () => model.selected((selection) => selection.clear()),
  });
  const csv = () =>
    model.table !== null &&
    void saveCsv(
      model.table,
      model.order,
      view.columns.map(({ key }) => key),
      feed.freshness.asOfMs,
    );
  return (
    <main className="campaigns">
      <h1 className="hidden-text">Budgets</h1>
      <div className="toolbar">
        <SearchField query={view.query} setView={setView} field={searchField} />
        <ViewMenu text={viewText(view)} />
        <FilterMenu terms={view.terms} model={model} change={(terms) => setView({ terms })} />
        <ColumnMenu columns={view.columns} change={(columns) => setView({ columns })} />
        <span className="toolbar-rest" />
        <Choice
          label="Order of rows"
          word="Order"
          value={view.order}
          choose={(order) => setView({ order })}
          options={[
            ["live", "Live", "Sorted anew each tick"],
            ["steady", "Steady", "Rows keep their places while you scroll, point or select"],
            ["freeze", "Frozen", "Nothing changes until you say so (f)"],
          ]}
        />
        <Choice
          label="Time zone"
          word="Times"
          value={view.clock}
          choose={(clock) => setView({ clock })}
          options={[
            ["campaign", "Own zone", "Times in each budget's zone"],
            ["utc", "UTC", "Times in UTC"],
            ["browser", "Mine", `Times in this computer's zone, ${browserZone()}`],
          ]}
        />
        <Choice
          label="Density"
          word="Rows"
          value={view.density}
          choose={(density) => setView({ density })}
          options={[
            ["compact", "Dense", "28 pixels a row"],
            ["roomy", "Roomy", "38 pixels a row"],
          ]}
        />
        <button
          type="button"
          className="button"
          title={unreadWords(view.unread) ?? "What is shown, as a file for spreadsheets"}
          disabled={view.unread.length > 0 || isComing}
          onClick={csv}
        >
          CSV
        </button>
        {may && (
          <button
            type="button"
            className="button"
            title="A budget for asks. One that bids is a campaign, and stands in the budgets file"
            onClick={() => setOpen({ kind: "create" })}
          >
            New budget…
          </button>
        )}
        <button
          type="button"
          className="button button-quiet"
          aria-label="Keys"
          onClick={() => setOpen({ kind: "keys" })}
        >
          ?
        </button>
      </div>
      <StatusBar
        model={model}
        view={view}
        setView={setView}
        may={may}
        choose={(intent) => setOpen({ kind: "bulk", intent })}
      />
      <Grid model={model} view={view} setView={setView} open={openCampaign} place={place} />
      <Nothing model={model} feed={feed} setView={setView} />
      <Totals model={model} />
      {open?.kind === "bulk" && (
        <BulkDialog
          model={model}
          intent={open.intent}
          setIntent={(intent) => setOpen({ kind: "bulk", intent })}
          close={close}
          done={(answer, action) => {
            close();
            setDeed({ answer, action, untilMs: Date.now() + 30_000 });
            model.selected((selection) => selection.clear());
          }}
        />
      )}
      {open?.kind === "create" && (
        <CreateDialog
          table={feed.table}
          close={close}
          done={(budget) => {
            close();
            go(addressOf("campaign", budget.id));
          }}
        />
      )}
      {open?.kind === "keys" && <KeysDialog close={close} />}
      {deed !== null && <UndoBar key={deed.answer.record} deed={deed} forget={() => setDeed(null)} />}
    </main>
  );
}

/** Where the reader of this view was, on the row of the campaign that was looked at last. */
function placeOf(view: View): Place | null {
  const { place } = kept();
  const seen = seenOf(viewText(view));
  return place === undefined ? null : { ...place, id: seen ?? place.id };
}

interface BarProps {
  model: Model;
  view: View;
  setView: SetView;
  may: boolean;
  choose: (intent: Intent) => void;
}

/** It is rendered by itself, or all of the page would be. */
function StatusBar({ model, view, setView, may, choose }: BarProps) {
  const summary = useSummary(model);
  useAnnounced(summary);
  return (
    <div className="status-bar" data-selected={summary.selected > 0 ? "yes" : "no"}>
      {summary.selected > 0 ? (
        <SelectionBar summary={summary} model={model} view={view} may={may} choose={choose} />
      ) : summary.isComing || (summary.rows === 0 && model.feed.table?.rows !== 0) ? (
        <Coming feed={model.feed} />
      ) : (
        <Counts summary={summary} model={model} view={view} setView={setView} />
      )}
      <UnreadChip unread={view.unread} remove={() => setView({ unread: [] })} />
      <FilterChips terms={view.terms} change={(terms) => setView({ terms })} />
      <Notices summary={summary} model={model} goOn={() => setView({ order: DEFAULT_VIEW.order })} />
    </div>
  );
}

/** What stands in the place of rows. */
function Nothing({ model, feed, setView }: { model: Model; feed: Feed; setView: SetView }) {
  const { rows, matched, isComing } = useSummary(model);
  if (rows === 0) return <NoRows feed={feed} />;
  if (matched > 0) return null;
  return (
    <Empty title={isComing ? "Nothing matches so far" : "Nothing matches"}>
      <button type="button" className="button" onClick={() => setView({ query: "", terms: [], unread: [] })}>
        Clear search and filters
      </button>
    </Empty>
  );
}

function NoRows({ feed }: { feed: Feed }) {
  const state = useSyncExternalStore(feed.subscribe, feed.snapshotState);
  if (state.connection === "live")
    return (
      <Empty title="No budgets yet">
        <p>Put some in the budgets file, or make one here with “New budget…”.</p>
      </Empty>
    );
  return (
    <Empty title="Waiting for the node">
      <p>{state.problem}</p>
    </Empty>
  );
}

/** How far the first rows are; sums follow when all are there. */
function Coming({ feed }: { feed: Feed }) {
  const { loadedRows, rowsTotal } = useSyncExternalStore(feed.subscribe, feed.snapshotState);
  if (rowsTotal === 0) return null;
  return (
    <span className="coming">
      <progress value={loadedRows} max={rowsTotal} aria-label="Budgets that have come" />
      <span className="figures">
        {count(loadedRows)} of {count(rowsTotal)} budgets have come
      </span>
    </span>
  );
}

/** Less than nothing remains, by a millionth at least. */
const OVER_LIMIT: Term = { column: "available", is: "range", least: null, most: -0.000_001 };

interface CountsProps extends Pick<BarProps, "model" | "view" | "setView"> {
  summary: Summary;
}

function Counts({ summary, model, view, setView }: CountsProps) {
  const isChosen = (term: Term) => view.terms.some((one) => termText(one) === termText(term));
  // A second click takes the filter away again.
  const only = (term: Term) => {
    const others = view.terms.filter(({ column }) => column !== term.column);
    setView({ terms: isChosen(term) ? others : [...others, term] });
  };
  return (
    <>
      <span>
        <strong className="figures">{count(summary.matched)}</strong>{" "}
        <span className="quiet">
          {summary.matched === summary.rows ? budgets(summary.rows) : `of ${count(summary.rows)}`}
        </span>
      </span>
      {STATUSES.map(
        (status, i) =>
          summary.statuses[i]! && (
            <button
              key={status}
              type="button"
              className="count"
              aria-pressed={view.terms.some(
                (term) => term.column === "status" && term.is === "set" && term.codes.includes(status),
              )}
              onClick={() => only({ column: "status", is: "set", codes: [status] })}
              title={`only ${words(status)}`}
            >
              <Chip status={status} />
              <LiveText className="figures" on={model.onDraw} text={() => count(model.counts.statuses[i]!)} />
            </button>
          ),
      )}
      {summary.hidden > 0 && (
        <span
          className="hidden-rows"
          title="Live budgets made from templates. The table has the first ones only; each has a page of its own by its handle only while it has a row."
        >
          {count(summary.hidden)} made from templates are not shown
        </span>
      )}
      {summary.isOver && (
        <button
          type="button"
          className="count count-over"
          aria-pressed={isChosen(OVER_LIMIT)}
          onClick={() => only(OVER_LIMIT)}
          title="Spent and held exceed the limit: after late or large bills, executions beyond it, or a lowered limit. Only these"
        >
          ▲ over limit{" "}
          <LiveText className="figures" on={model.onDraw} text={() => count(model.counts.over)} />
        </button>
      )}
    </>
  );
}

function Notices({ summary, model, goOn }: { summary: Summary; model: Model; goOn: () => void }) {
  return (
    <>
      <span className="toolbar-rest" />
      {summary.held !== null && (
        <button
          type="button"
          className="notice"
          title="Rows keep their places while you scroll, point or select"
          onClick={() => model.applyOrder()}
        >
          Order is {span(summary.held.ageMs)} old
          {summary.held.entering > 0 && `, ${count(summary.held.entering)} other rows would be in view`}.
          Apply
        </button>
      )}
      {summary.frozenAsOfMs !== null && (
        <button type="button" className="notice" onClick={goOn}>
          Frozen at {exactTime(summary.frozenAsOfMs, "UTC")}; {count(summary.missed)} changes since. Go on
        </button>
      )}
    </>
  );
}

function SelectionBar({
  summary,
  model,
  view,
  may,
  choose,
}: Omit<BarProps, "setView"> & { summary: Summary }) {
  const why = !may
    ? "Your token may only read"
    : summary.isComing
      ? "Budgets are still coming"
      : unreadWords(view.unread);
  return (
    <div className="selection-bar" role="region" aria-label="Selection">
      <strong className="figures">{count(summary.selected)} selected</strong>
      <button
        type="button"
        className="button"
        disabled={why !== undefined}
        title={why}
        onClick={() => choose({ action: "pause" })}
      >
        Pause…
      </button>
      <button
        type="button"
        className="button"
        disabled={why !== undefined}
        title={why}
        onClick={() => choose({ action: "resume" })}
      >
        Resume…
      </button>
      <button
        type="button"
        className="button"
        disabled={why !== undefined}
        title={why}
        onClick={() => choose({ action: "scale", column: "limit", text: "" })}
      >
        Change limits…
      </button>
      {summary.selected < summary.matched && (
        <button
          type="button"
          className="button button-quiet"
          onClick={() => model.selected((selection) => selection.selectAll())}
        >
          Select all {count(summary.matched)} matching
        </button>
      )}
      <button
        type="button"
        className="button button-quiet"
        onClick={() => model.selected((selection) => selection.clear())}
      >
        Clear
      </button>
    </div>
  );
}

const SPEAK_MS = 3_000;

/** One sentence when counts settle, never one a delta. */
function useAnnounced({ matched, selected, rows, isComing }: Summary): void {
  const text =
    rows === 0 || isComing
      ? ""
      : `${matched} ${budgets(matched)}${selected > 0 ? `, ${selected} selected` : ""}`;
  useEffect(() => {
    const timer = window.setTimeout(() => text !== "" && announce(text), SPEAK_MS);
    return () => window.clearTimeout(timer);
  }, [text]);
}
