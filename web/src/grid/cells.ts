// How cells are drawn: elements are made once for a pooled row, later only texts and transforms that differ are written.
import { FLAG_NAMES, PERIODS, REASONS, STATUSES, VERDICTS, reasonOf, words } from "../live/codes";
import { type Table, paceOf, tightestWindow } from "../live/table";
import { cellText, exactText, inUnits, shortText } from "../money/money";
import { count, perSecond } from "../ui/numbers";
import { STATUS_SHAPE, bandOf, paceText } from "../ui/status";
import { dayAndTime, span } from "../ui/time";
import { addressOf } from "../url/router";
import { type Column, NONE, periodOf } from "./columns";

export interface Surroundings {
  /** The node's time. */
  nowMs: number;
  /** Which zone times of a row are shown in. */
  zoneOf(table: Table, row: number): string;
}

type Text = (table: Table, row: number, around: Surroundings) => string;

export interface Cell {
  paint(table: Table, row: number, around: Surroundings): void;
  /** Its title: what the text does not say. */
  about?: Text | undefined;
}

/** A text node that is written only when its text differs. */
class Words {
  private readonly node = document.createTextNode("");
  private last = "";

  constructor(parent: HTMLElement) {
    parent.append(this.node);
  }

  set(text: string): void {
    if (text === this.last) return;
    this.last = text;
    this.node.data = text;
  }
}

/** How much surely fits into a cell: a clip of every cell would take a third of each picture, so only those have one that need it. */
export interface Room {
  digits: number;
  letters: number;
  /** Narrower than its column wants to be. */
  isNarrow: boolean;
}

/** How many digits wide the widest letter is, and a bold digit. */
const LETTER = 1.75;
const BOLD = 1.1;
const PADDING = 10;

/** `digit`: pixels of a plain one. Texts may reach into the padding at their end. */
export function roomOf(column: Column, width: number, digit: number): Room {
  const digits = (width - PADDING) / digit;
  return { digits, letters: digits / LETTER, isNarrow: width < column.width };
}

/** An attribute, likewise. */
class Mark {
  private last = "";

  constructor(
    private readonly element: HTMLElement,
    private readonly name: string,
  ) {}

  set(text: string): void {
    if (text === this.last) return;
    this.last = text;
    this.element.setAttribute(this.name, text);
  }
}

/** One property of an element's style. Through the style object: a style attribute would need a hole in the CSP. */
class Look {
  private last = "";

  constructor(
    private readonly element: HTMLElement,
    private readonly property: string,
  ) {}

  set(text: string): void {
    if (text === this.last) return;
    this.last = text;
    this.element.style.setProperty(this.property, text);
  }
}

/** Words that their cell is clipped for if they are more than the room. */
class Fitted {
  private readonly words: Words;
  private readonly clip: Mark;

  constructor(
    parent: HTMLElement,
    cell: HTMLElement,
    private readonly room: number,
  ) {
    this.words = new Words(parent);
    this.clip = new Mark(cell, "data-clip");
  }

  set(text: string): void {
    this.words.set(text);
    this.clip.set(text.length > this.room ? "yes" : "no");
  }
}

function part(parent: HTMLElement, kind: string, hidden = false): HTMLElement {
  const made = document.createElement("span");
  made.className = kind;
  if (hidden) made.setAttribute("aria-hidden", "true");
  parent.append(made);
  return made;
}

function plain(element: HTMLElement, room: number, text: Text, about?: Text): Cell {
  const shown = new Fitted(element, element, room);
  return { paint: (table, row, around) => shown.set(text(table, row, around)), about };
}

function money(element: HTMLElement, column: Column, { digits }: Room): Cell {
  const negative = new Mark(element, "data-negative");
  const shown = new Fitted(element, element, digits / BOLD);
  const rounding = ["spent", "cpm", "cpc"].includes(column.key) ? "up" : "cut";
  const isRounded = (value: number) => Math.abs(value) > Number.MAX_SAFE_INTEGER;
  return {
    paint(table, row) {
      const value = column.value(table, row);
      negative.set(value < 0 ? "yes" : "no");
      shown.set((isRounded(value) ? "≈" : "") + cellText(value, table.units[row]!, rounding));
    },
    about(table, row) {
      const value = column.value(table, row);
      return exactText(value, table.units[row]!) + (isRounded(value) ? ", rounded; exact in its page" : "");
    },
  };
}

/** Of cells of several parts, whose widths fit so many characters in the part that may be long. */
const roomOfPart = ({ isNarrow }: Room, most: number): number => (isNarrow ? 0 : most);

function status(element: HTMLElement, _: Column, room: Room): Cell {
  const chip = part(element, "chip");
  const mark = new Mark(chip, "data-status");
  const shape = new Words(part(chip, "chip-shape", true));
  const word = new Fitted(part(chip, "chip-word"), element, roomOfPart(room, Infinity));
  const reason = new Words(part(element, "cell-quiet"));
  return {
    paint(table, row, around) {
      const code = STATUSES[table.status[row]!] ?? "error";
      const why = REASONS[table.reason[row]!] ?? "";
      mark.set(code);
      shape.set(STATUS_SHAPE[code]);
      word.set(words(code));
      const since = span(around.nowMs - table.since[row]!);
      reason.set(why === "" || why === "owner" ? since : `${words(why)}, ${since}`);
    },
    about(table, row, around) {
      const code = STATUSES[table.status[row]!] ?? "error";
      const why = REASONS[table.reason[row]!] ?? "";
      return `${words(code)}${why === "" ? "" : `: ${reasonOf(why, table.campaign[row] === 1)}`}, for ${span(around.nowMs - table.since[row]!)}`;
    },
  };
}

/** The pace index at the end of a bullet bar; 1 is at two thirds of it, where the tick stands. */
const BULLET_MOST = 1.5;

function pace(element: HTMLElement, _: Column, room: Room): Cell {
  const bar = part(element, "bullet", true);
  const fill = new Look(part(bar, "bullet-fill"), "transform");
  part(bar, "bullet-tick");
  const number = new Fitted(part(element, "bullet-number"), element, roomOfPart(room, 5));
  const band = new Mark(element, "data-band");
  return {
    paint(table, row) {
      const index = paceOf(table, row);
      band.set(bandOf(index));
      fill.set(`scaleX(${share(index, BULLET_MOST)})`);
      number.set(paceText(index));
    },
    about(table, row) {
      if (Number.isNaN(paceOf(table, row))) return "nothing is planned yet";
      const exact = (column: Float64Array) => exactText(column[row]!, table.units[row]!);
      return `spent ${exact(table.windowSpent)}, planned by now ${exact(table.windowPlanned)}, of ${exact(table.windowBudget)}`;
    },
  };
}

/** Part of a whole for a bar, from 0 to 1, in steps that a pixel could show. */
function share(part: number, whole: number): number {
  return whole > 0 ? Math.round(Math.min(1, Math.max(0, part / whole)) * 200) / 200 : 0;
}

function day(element: HTMLElement, _: Column, room: Room): Cell {
  const spent = new Fitted(part(element, "cell-main"), element, roomOfPart(room, 8));
  const rest = new Words(part(element, "cell-quiet"));
  return {
    paint(table, row, around) {
      const daily = table.daily[row]!;
      const unit = table.units[row]!;
      spent.set(cellText(table.daySpent[row]!, unit, "up"));
      const left = span(table.dayEnds[row]! - around.nowMs).replace(/ h .*/, " h");
      rest.set(Number.isNaN(daily) ? "no daily limit" : `of ${shortText(daily, unit)}, ${left} left`);
    },
    about(table, row, around) {
      const daily = table.daily[row]!;
      if (Number.isNaN(daily)) return "no daily limit";
      const ends = table.dayEnds[row]!;
      const zone = table.zones[row]!;
      return `of ${exactText(daily, table.units[row]!)}; a new day in ${span(ends - around.nowMs)}, at ${dayAndTime(ends, zone)}, ${zone}`;
    },
  };
}

function refusals(element: HTMLElement, _: Column, room: Room): Cell {
  const rate = new Fitted(part(element, "cell-main"), element, roomOfPart(room, 8));
  const why = new Words(part(element, "cell-quiet"));
  const verdictOf = (table: Table, row: number) => VERDICTS[table.topRefusal[row]!] ?? "";
  return {
    paint(table, row) {
      rate.set(perSecond(table.refusals[row]! / 100));
      why.set(words(verdictOf(table, row)));
    },
    about(table, row) {
      const verdict = verdictOf(table, row);
      return verdict === ""
        ? "no refusals"
        : `${perSecond(table.topRefusals[row]! / 100)} per second of these: ${words(verdict)}`;
    },
  };
}

/** Left of the number, on the canvas below, is the curve. */
function spark(element: HTMLElement, _: Column, room: Room): Cell {
  const number = new Words(element);
  const label = new Mark(element, "aria-label");
  const about: Text = (table, row) =>
    `${exactText(table.spendMinute[row]!, table.units[row]!)} in the last minute`;
  return {
    paint(table, row, around) {
      if (room.isNarrow) label.set(about(table, row, around));
      else number.set(minuteText(table.spendMinute[row]!, table.units[row]!));
    },
    about,
  };
}

/** In few characters: beyond ten thousand units the cents say nothing. */
function minuteText(amount: number, unit: string): string {
  return inUnits(amount, unit) < 10_000 ? cellText(amount, unit, "up") : shortText(amount, unit);
}

function time(element: HTMLElement, column: Column, { digits }: Room): Cell {
  const shown = new Fitted(element, element, digits);
  let [lastMs, lastZone] = [-1, ""];
  return {
    paint(table, row, around) {
      const ms = column.value(table, row);
      const zone = around.zoneOf(table, row);
      // It seldom differs from one update to the next, and a date takes as long as all amounts of a row.
      if (ms === lastMs && zone === lastZone) return;
      [lastMs, lastZone] = [ms, zone];
      shown.set(Number.isNaN(ms) ? "open" : dayAndTime(ms, zone));
    },
    about: (table, row, around) => `${column.about}; ${around.zoneOf(table, row)}`,
  };
}

/** Used, of its limit; of the tightest window with its period. */
function windowCell(element: HTMLElement, column: Column, room: Room): Cell {
  const used = new Fitted(part(element, "cell-main"), element, roomOfPart(room, 8));
  const rest = new Words(part(element, "cell-quiet"));
  const tight = new Mark(element, "data-tight");
  const own = periodOf(column);
  const periodAt = (table: Table, row: number): number => own ?? tightestWindow(table, row);
  const columnsAt = (table: Table, row: number) => {
    const period = periodAt(table, row);
    return ((table.windowed[row]! >> period) & 1) === 1 && period >= 0 ? table.windows[period] : null;
  };
  return {
    paint(table, row) {
      const window = columnsAt(table, row);
      const unit = table.units[row]!;
      used.set(window == null ? "" : cellText(window.used[row]!, unit));
      const period = own === null && window != null ? ` a ${PERIODS[periodAt(table, row)]}` : "";
      rest.set(window == null ? "" : `of ${shortText(window.limit[row]!, unit)}${period}`);
      tight.set(column.value(table, row) >= TIGHT ? "yes" : "no");
    },
    about(table, row) {
      const window = columnsAt(table, row);
      const period = periodAt(table, row);
      if (window == null)
        return own === null ? "it has no window" : `it has no window of a ${PERIODS[period]}`;
      const exact = (amount: number) => exactText(amount, table.units[row]!);
      const kind = ((table.buckets[row]! >> period) & 1) === 1 ? "a bucket that refills in a" : "in its";
      return `${exact(window.used[row]!)} of ${exact(window.limit[row]!)}, ${kind} ${PERIODS[period]}`;
    },
  };
}

/** So much of a window used is marked. */
const TIGHT = 0.9;

/** A name is no duty; a row that says nothing cannot be found again. */
const nameOf = (table: Table, row: number): string =>
  table.names[row]! || table.handles[row]! || `#${table.ids[row]!}`;

/** What stands beside the name: the handle, or what made it where its name is the handle. */
function besideName(table: Table, row: number): string {
  const handle = table.handles[row]!;
  if (handle !== "" && handle !== nameOf(table, row)) return handle;
  const template = table.templates[row]!;
  return template === "" ? "" : `from ${template}`;
}

function aboutName(table: Table, row: number): string {
  const [handle, template] = [table.handles[row]!, table.templates[row]!];
  return [
    nameOf(table, row),
    ...(handle === "" || handle === nameOf(table, row) ? [] : [`handle ${handle}`]),
    ...(template === "" ? [] : [`made from the template ${template}`]),
  ].join("; ");
}

/** The name leads to its campaign: a link of the browser's own, to be copied or opened elsewhere. The keys stop at its cell. */
function link(element: HTMLElement): Cell {
  const anchor = document.createElement("a");
  anchor.className = "cell-link";
  anchor.tabIndex = -1;
  element.append(anchor);
  // What ends in three dots is always clipped.
  element.dataset.clip = "yes";
  const shown = new Words(anchor);
  const beside = new Words(part(element, "cell-quiet"));
  let last = "";
  return {
    paint(table, row) {
      shown.set(nameOf(table, row));
      beside.set(besideName(table, row));
      const id = table.ids[row]!;
      if (id === last) return;
      last = id;
      anchor.setAttribute("href", addressOf("campaign", id));
    },
    about: aboutName,
  };
}

const flags = (table: Table, row: number): string =>
  FLAG_NAMES.filter((name, bit) => name !== "open" && ((table.flags[row]! >> bit) & 1) === 1).join(", ");

const SPECIAL: Record<string, (element: HTMLElement, column: Column, room: Room) => Cell> = {
  status,
  pace,
  spend: spark,
  day_spent: day,
  refusals,
  end: time,
  flags: (element) => plain(element, 0, flags),
  since: (element, _, { letters }) =>
    plain(element, letters, (table, row, around) => span(around.nowMs - table.since[row]!)),
  id: (element, _, { digits }) => plain(element, digits, (table, row) => table.ids[row]!),
  name: link,
  template: (element, _, { letters }) => plain(element, letters, (table, row) => table.templates[row]!),
  tightest: windowCell,
  ...Object.fromEntries(PERIODS.map((period) => [period, windowCell])),
};

/** Does its cell hold more than one text? */
export const isOfParts = (column: Column): boolean => OF_PARTS.has(column.key) || periodOf(column) !== null;

const OF_PARTS: ReadonlySet<string> = new Set([
  "name",
  "status",
  "pace",
  "day_spent",
  "refusals",
  "tightest",
]);

/** A code that says nothing is an empty cell. */
const wordsOf = (code: string): string => (code === NONE ? "" : words(code));

function numberText({ key }: Column, value: number): string {
  if (key === "ctr") return Number.isNaN(value) ? "–" : `${(value * 100).toFixed(2)} %`;
  return key === "impressions" || key === "clicks" ? count(value) : perSecond(value);
}

/** The cell of a column in one pooled row. */
export function cellOf(element: HTMLElement, column: Column, room: Room): Cell {
  const special = SPECIAL[column.key];
  if (special !== undefined) return special(element, column, room);
  if (column.kind === "amount") return money(element, column, room);
  const { text } = column;
  if (text !== undefined)
    return plain(
      element,
      room.letters,
      column.kind === "text" || column.codes === undefined ? text : (table, row) => wordsOf(text(table, row)),
      text,
    );
  return plain(element, room.digits, (table, row) => numberText(column, column.value(table, row)));
}
