// Messages of schema/live.xml: bytes to columns. Records are read through 32-bit views, which costs about a nanosecond a
// word; getBigInt64 would make an object of every amount.
import {
  ACKNOWLEDGE_BLOCK,
  BUDGETS_ENTRY,
  CHANGES_ENTRY as CHANGE,
  GROUP_HEADER,
  MESSAGE_HEADER,
  PATCH_BLOCK,
  RESYNC_BLOCK,
  ROWS_ENTRY,
  SCHEMA,
  SNAPSHOT_BLOCK,
  SPARKS_BLOCK,
  SPARKS_ENTRY,
  STATES_ENTRY as STATE,
  STEPS_ENTRY,
  TEMPLATE,
  WATCH_BLOCK,
  WINDOWS_ENTRY as WINDOW,
} from "./layout";
import {
  PERIODS_WORD,
  TIMES,
  type Table,
  WIDE,
  WINDOWS_WORD,
  type WindowColumns,
  clearWindows,
  emptyTable,
  setPeriods,
  setWindow,
  wordOf,
} from "./table";

export { SCHEMA, TEMPLATE };
/** Steps of a sparkline, 30 s each. */
export const SPARK_BUCKETS = 20;
const WORD = 4_294_967_296;
const LENGTH_BYTES = 4;
/** The messages of the node begin alike. */
const BLOCK = SPARKS_BLOCK;

export interface Header {
  schema: number;
  version: number;
  template: number;
  /** Bytes of the root block; it may be longer than this page knows. */
  blockLength: number;
  sequence: number;
  asOfMs: number;
  run: number;
  /** Entries of the first group: budgets of a snapshot, rows of a patch, sparks. */
  count: number;
}

/** A message that does not fit the contract. */
export class FrameError extends Error {}

/** Views of one message; both see the same bytes. */
export interface Frame {
  header: Header;
  words: Uint32Array;
  bytes: Uint8Array;
}

function u64(words: Uint32Array, at: number): number {
  const low = words[at]!;
  const high = words[at + 1]!;
  return high === 0xffff_ffff && low === 0xffff_ffff ? NaN : high * WORD + low;
}

/** A signed number; null is NaN. */
function i64(words: Uint32Array, at: number): number {
  const high = words[at + 1]! | 0;
  return high === -0x8000_0000 && words[at] === 0 ? NaN : high * WORD + words[at]!;
}

/** Large ones through BigInt, which takes a microsecond: ids are small almost everywhere. */
function text64(words: Uint32Array, at: number): string {
  const [low, high] = [words[at]!, words[at + 1]!];
  return high === 0 ? low.toString() : ((BigInt(high) << 32n) | BigInt(low)).toString();
}

const u16 = (bytes: Uint8Array, at: number): number => bytes[at]! | (bytes[at + 1]! << 8);

/** Reads what all messages of the node have in common. Those of another schema are told by their header, and hold nothing else. */
export function readFrame(buffer: ArrayBuffer): Frame {
  const bytes = new Uint8Array(buffer);
  const words = new Uint32Array(buffer, 0, buffer.byteLength >> 2);
  if (bytes.length < MESSAGE_HEADER.bytes) throw new FrameError(`a message of ${bytes.length} bytes`);
  const header: Header = {
    schema: u16(bytes, MESSAGE_HEADER.schemaId),
    version: u16(bytes, MESSAGE_HEADER.version),
    template: u16(bytes, MESSAGE_HEADER.templateId),
    blockLength: u16(bytes, MESSAGE_HEADER.blockLength),
    sequence: NaN,
    asOfMs: NaN,
    run: NaN,
    count: 0,
  };
  const frame = { header, words, bytes };
  if (header.schema !== SCHEMA.id || header.version < SCHEMA.version) return frame;
  const { blockLength } = header;
  if (blockLength < BLOCK.bytes || blockLength % 4 !== 0)
    throw new FrameError(`a root block of ${blockLength} bytes`);
  header.count = readGroup(frame, MESSAGE_HEADER.bytes + blockLength, 0).count;
  header.sequence = u64(words, root(BLOCK.sequence));
  header.asOfMs = u64(words, root(BLOCK.asOfMs));
  header.run = words[root(BLOCK.run)]!;
  return frame;
}

/** The word of a field of the root block. */
const root = (offset: number): number => (MESSAGE_HEADER.bytes + offset) >> 2;

/** Where the entries of a group lie: bytes. */
interface Group {
  from: number;
  step: number;
  count: number;
  end: number;
}

/** The group whose header lies at `at`. Entries may be longer than this page knows, but not shorter. */
function readGroup(frame: Frame, at: number, least: number): Group {
  const from = at + GROUP_HEADER.bytes;
  if (from > frame.bytes.length)
    throw new FrameError(`${frame.bytes.length} bytes end before the group at ${at}`);
  const step = u16(frame.bytes, at + GROUP_HEADER.blockLength);
  const count = u16(frame.bytes, at + GROUP_HEADER.numInGroup);
  if (step < least || step % 4 !== 0)
    throw new FrameError(`entries of ${step} bytes, expected ${least} or more`);
  const end = from + step * count;
  if (end > frame.bytes.length) throw new FrameError(`${frame.bytes.length} bytes, expected ${end} or more`);
  return { from, step, count, end };
}

const firstGroup = (frame: Frame, least: number): Group =>
  readGroup(frame, MESSAGE_HEADER.bytes + frame.header.blockLength, least);

/** Text behind its length; it may begin at any byte. */
function readData(frame: Frame, at: number): { text: Uint8Array; end: number } {
  const from = at + LENGTH_BYTES;
  if (from > frame.bytes.length)
    throw new FrameError(`${frame.bytes.length} bytes end before the text at ${at}`);
  const end = from + new DataView(frame.bytes.buffer).getUint32(at, true);
  if (end > frame.bytes.length) throw new FrameError(`${frame.bytes.length} bytes, expected ${end} or more`);
  return { text: frame.bytes.subarray(from, end), end };
}

function expectEnd(frame: Frame, end: number): void {
  if (frame.bytes.length !== end) throw new FrameError(`${frame.bytes.length} bytes, expected ${end}`);
}

/** Judges all rows before the first figure is written: entries of states and of windows begin with theirs. */
function expectRows(table: Table, { words }: Frame, { from, step, count }: Group): void {
  for (let i = 0, at = from >> 2; i < count; i += 1, at += step >> 2)
    if (words[at]! >= table.rows) throw new FrameError(`row ${words[at]} of ${table.rows}`);
}

/**
 * Record by record: between two updates all columns leave the processor's cache, and one run over the message waits for memory once
 * where a run for each column waits nineteen times. Times and amounts are whole doubles; beyond 2^53 they are rounded, and no safe
 * integers then, by which cells know to say so.
 */
function writeStates(table: Table, frame: Frame, group: Group): void {
  const { words } = frame;
  const { status, reason, topRefusal, flags, version, since, limit, spent, debt, held, available } = table;
  const { windowStart, windowEnd, windowBudget, windowPlanned, windowSpent, daily, daySpent } = table;
  const { dayEnds, spendMinute, asks, grants, refusals, topRefusals, windowed } = table;
  const { booked, impressions, clicks } = table;
  const end = (group.from + group.step * group.count) >> 2;
  for (let at = group.from >> 2; at < end; at += group.step >> 2) {
    const row = words[at + (STATE.row >> 2)]!;
    // Four bytes of one word.
    const codes = words[at + (STATE.status >> 2)]!;
    status[row] = codes & 255;
    reason[row] = (codes >>> 8) & 255;
    topRefusal[row] = (codes >>> 16) & 255;
    flags[row] = codes >>> 24;
    version[row]! += 1;
    since[row] = u64(words, at + (STATE.sinceMs >> 2));
    limit[row] = i64(words, at + (STATE.limit >> 2));
    spent[row] = i64(words, at + (STATE.spent >> 2));
    debt[row] = i64(words, at + (STATE.debt >> 2));
    held[row] = i64(words, at + (STATE.held >> 2));
    available[row] = i64(words, at + (STATE.available >> 2));
    windowStart[row] = u64(words, at + (STATE.windowStartMs >> 2));
    windowEnd[row] = u64(words, at + (STATE.windowEndMs >> 2));
    windowBudget[row] = i64(words, at + (STATE.windowBudget >> 2));
    windowPlanned[row] = i64(words, at + (STATE.windowPlanned >> 2));
    windowSpent[row] = i64(words, at + (STATE.windowSpent >> 2));
    daily[row] = i64(words, at + (STATE.daily >> 2));
    daySpent[row] = i64(words, at + (STATE.daySpent >> 2));
    dayEnds[row] = u64(words, at + (STATE.dayEndsMs >> 2));
    spendMinute[row] = i64(words, at + (STATE.spendMinute >> 2));
    asks[row] = words[at + (STATE.asks >> 2)]!;
    grants[row] = words[at + (STATE.grants >> 2)]!;
    refusals[row] = words[at + (STATE.refusals >> 2)]!;
    topRefusals[row] = words[at + (STATE.topRefusals >> 2)]!;
    booked[row] = i64(words, at + (STATE.booked >> 2));
    impressions[row] = u64(words, at + (STATE.impressions >> 2));
    clicks[row] = u64(words, at + (STATE.clicks >> 2));
    if (windowed[row] !== 0) clearWindows(table, row);
  }
}

/** The windows of rows whose states came with them; behind those. */
function writeWindows(table: Table, { words, bytes }: Frame, { from, step, count }: Group): void {
  const period = (at: number): number => bytes[at + WINDOW.period]!;
  const row = (at: number): number => words[(at + WINDOW.row) >> 2]!;
  for (let i = 0, at = from; i < count; i += 1, at += step) {
    // One of a later release.
    if (period(at) >= table.windows.length) continue;
    const [limit, used] = [i64(words, (at + WINDOW.limit) >> 2), i64(words, (at + WINDOW.used) >> 2)];
    setWindow(table, row(at), period(at), bytes[at + WINDOW.refill] === 1, limit, used);
  }
}

/** How many bits are set. */
const bitsIn = (bits: number): number => {
  let pairs = bits - ((bits >>> 1) & 0x5555_5555);
  pairs = (pairs & 0x3333_3333) + ((pairs >>> 2) & 0x3333_3333);
  return Math.imul((pairs + (pairs >>> 4)) & 0x0f0f_0f0f, 0x0101_0101) >>> 24;
};

/** Counts of words and rows are judged before the first of them is written. */
function expectWords(table: Table, frame: Frame, changes: Group, count: number): void {
  expectRows(table, frame, changes);
  let sum = 0;
  for (let i = 0, at = changes.from >> 2; i < changes.count; i += 1, at += changes.step >> 2)
    sum += bitsIn(frame.words[at + MASK_LOW]!) + bitsIn(frame.words[at + MASK_HIGH]!);
  if (sum !== count) throw new FrameError(`${count} words, expected ${sum}`);
}

const MASK_LOW = CHANGE.mask >> 2;
const MASK_HIGH = MASK_LOW + 1;
const CODES_WORD = STATE.status >> 2;
/** By lower word of a value of 64 bits: is it unsigned? */
const UNSIGNED: readonly boolean[] = Array.from({ length: PERIODS_WORD }, (_, word) =>
  [...TIMES, "impressions", "clicks"].some((column) => wordOf(column as (typeof TIMES)[number]) === word),
);

/** The upper word as it was; windows begin at 0. */
const withLow = (old: number, low: number): number => Math.floor((old || 0) / WORD) * WORD + low;

/** By lower word: the column that it is of. */
function columnsOf(table: Table): readonly (Float64Array | undefined)[] {
  const columns: (Float64Array | undefined)[] = new Array(PERIODS_WORD).fill(undefined);
  for (const name of WIDE) columns[wordOf(name)] = table[name];
  return columns;
}

/** Applies a patch: of each row the words that its mask has, which lie one behind the other in the order of their numbers. */
export function applyPatch(table: Table, frame: Frame): void {
  const changes = firstGroup(frame, CHANGE.bytes);
  const data = readData(frame, changes.end);
  expectEnd(frame, data.end);
  // The words lie behind their length, at a multiple of 4 as all before.
  const from = changes.end + LENGTH_BYTES;
  expectWords(table, frame, changes, (data.end - from) / 4);
  const { words } = frame;
  const columns = columnsOf(table);
  let next = from >> 2;
  for (let i = 0, at = changes.from >> 2; i < changes.count; i += 1, at += changes.step >> 2) {
    const row = words[at]!;
    const [low, high] = [words[at + MASK_LOW]!, words[at + MASK_HIGH]!];
    table.version[row]! += 1;
    table.changed.add(row, low, high);
    next = writeLow(table, columns, words, row, low, next);
    if (high !== 0) next = writeHigh(table, columns, words, row, high, next);
  }
  table.hidden = words[root(PATCH_BLOCK.hidden)]!;
  table.revision += 1;
}

/** The words from 0 to 31: codes, then values of 64 bits. */
function writeLow(
  table: Table,
  columns: readonly (Float64Array | undefined)[],
  words: Uint32Array,
  row: number,
  mask: number,
  next: number,
): number {
  next += mask & 1;
  if (((mask >>> CODES_WORD) & 1) === 1) {
    const codes = words[next++]!;
    table.status[row] = codes & 255;
    table.reason[row] = (codes >>> 8) & 255;
    table.topRefusal[row] = (codes >>> 16) & 255;
    table.flags[row] = codes >>> 24;
  }
  let left = mask & ~3;
  while (left !== 0) {
    const word = (31 - Math.clz32(left & -left)) & ~1;
    next = writeValue(columns[word], UNSIGNED[word]!, words, row, (mask >>> word) & 3, next);
    left &= ~(3 << word);
  }
  return next;
}

/** A value of 64 bits, of which these words are there; returns where the next one is. */
function writeValue(
  column: Float64Array | undefined,
  unsigned: boolean,
  words: Uint32Array,
  row: number,
  there: number,
  at: number,
): number {
  if (column !== undefined) {
    if (there === 3) column[row] = unsigned ? u64(words, at) : i64(words, at);
    else if (there === 1) column[row] = withLow(column[row]!, words[at]!);
  }
  return at + (there === 3 ? 2 : 1);
}

/** The words from 32 on: rates, what is counted, windows. */
function writeHigh(
  table: Table,
  columns: readonly (Float64Array | undefined)[],
  words: Uint32Array,
  row: number,
  mask: number,
  next: number,
): number {
  if ((mask & 1) !== 0) table.asks[row] = words[next++]!;
  if ((mask & 2) !== 0) table.grants[row] = words[next++]!;
  if ((mask & 4) !== 0) table.refusals[row] = words[next++]!;
  if ((mask & 8) !== 0) table.topRefusals[row] = words[next++]!;
  let left = mask & ~15;
  while (left !== 0) {
    const bit = (31 - Math.clz32(left & -left)) & ~1;
    const there = (mask >>> bit) & 3;
    const word = bit + 32;
    if (word === PERIODS_WORD) {
      if ((there & 1) !== 0) setPeriods(table, row, words[next]! & 255, (words[next]! >>> 8) & 255);
      next += bitsIn(there);
    } else if (word < PERIODS_WORD)
      next = writeValue(columns[word], UNSIGNED[word]!, words, row, there, next);
    else next = writeValue(windowColumn(table, row, word), false, words, row, there, next);
    left &= ~(3 << bit);
  }
  return next;
}

/** The column of a window that the row has. */
function windowColumn(table: Table, row: number, word: number): Float64Array | undefined {
  const period = (word - WINDOWS_WORD) >> 2;
  if (((table.windowed[row]! >> period) & 1) === 0) return undefined;
  const columns: WindowColumns | null | undefined = table.windows[period];
  return (word & 2) === 0 ? columns?.limit : columns?.used;
}

export interface Part {
  firstRow: number;
  rowsTotal: number;
}

export function readPart({ header, words }: Frame): Part {
  if (header.blockLength < SNAPSHOT_BLOCK.bytes)
    throw new FrameError(`a root block of ${header.blockLength} bytes, expected ${SNAPSHOT_BLOCK.bytes}`);
  return {
    firstRow: words[root(SNAPSHOT_BLOCK.firstRow)]!,
    rowsTotal: words[root(SNAPSHOT_BLOCK.rowsTotal)]!,
  };
}

/** A new table for a snapshot whose first part this is. */
export const tableFor = (frame: Frame): Table => emptyTable(readPart(frame).rowsTotal);

/** Applies one part of a snapshot to the table that is being built. */
export function applyPart(table: Table, frame: Frame): void {
  const { firstRow, rowsTotal } = readPart(frame);
  const budgets = firstGroup(frame, BUDGETS_ENTRY.bytes);
  const states = readGroup(frame, budgets.end, STATE.bytes);
  const windows = readGroup(frame, states.end, WINDOW.bytes);
  const names = readData(frame, windows.end);
  const zones = readData(frame, names.end);
  const handles = readData(frame, zones.end);
  const templates = readData(frame, handles.end);
  expectEnd(frame, templates.end);
  for (const group of [states, windows]) expectRows(table, frame, group);
  const { count } = budgets;
  if (rowsTotal !== table.rows || firstRow + count > rowsTotal || states.count !== count) {
    throw new FrameError(`rows ${firstRow} + ${count} of ${table.rows}, with ${states.count} states`);
  }
  writeBudgets(table, frame, budgets, firstRow, {
    names: lines(names.text),
    zones: lines(zones.text),
    handles: lines(handles.text),
    templates: lines(templates.text),
  });
  writeStates(table, frame, states);
  writeWindows(table, frame, windows);
  table.hidden = frame.words[root(SNAPSHOT_BLOCK.hidden)]!;
}

function writeBudgets(
  table: Table,
  frame: Frame,
  { from, step, count }: Group,
  firstRow: number,
  texts: Texts,
): void {
  const { names, handles } = texts;
  if (names.length !== count) throw new FrameError(`${names.length} names for ${count} rows`);
  if (handles.length !== count) throw new FrameError(`${handles.length} handles for ${count} rows`);
  for (let i = 0; i < count; i += 1) {
    table.names[firstRow + i] = names[i]!;
    table.handles[firstRow + i] = handles[i]!;
    writeBudget(table, frame, firstRow + i, from + i * step, texts);
  }
}

/** The texts of a part of a snapshot, line by line. */
interface Texts {
  names: string[];
  zones: string[];
  handles: string[];
  templates: string[];
}

/** In the place of a template that is not there any more. */
const GONE = "(gone)";
const NONE = 0xffff_ffff;

function writeBudget(
  table: Table,
  { words, bytes }: Frame,
  row: number,
  at: number,
  { zones, templates }: Texts,
): void {
  const zone = zones[u16(bytes, at + BUDGETS_ENTRY.zone)];
  if (zone === undefined) throw new FrameError(`row ${row} has a zone that is not in the message`);
  const word = (offset: number): number => (at + offset) >> 2;
  const id = word(BUDGETS_ENTRY.id);
  table.ids[row] = text64(words, id);
  table.idNumbers[row] = words[id + 1]! * WORD + words[id]!;
  table.parents[row] = Number.isNaN(u64(words, word(BUDGETS_ENTRY.parent)))
    ? null
    : text64(words, word(BUDGETS_ENTRY.parent));
  table.start[row] = u64(words, word(BUDGETS_ENTRY.startMs));
  table.end[row] = u64(words, word(BUDGETS_ENTRY.endMs));
  table.units[row] = unitOf(words[word(BUDGETS_ENTRY.unit)]!);
  table.zones[row] = zone;
  table.pacing[row] = bytes[at + BUDGETS_ENTRY.pacing]!;
  table.campaign[row] = bytes[at + BUDGETS_ENTRY.kind]!;
  const template = words[word(BUDGETS_ENTRY.template)]!;
  table.templates[row] = template === NONE ? "" : (templates[template] ?? GONE);
}

/** Units by code: few, in many rows. */
const units = new Map<number, string>();

function unitOf(code: number): string {
  const known = units.get(code);
  if (known !== undefined) return known;
  const letters = String.fromCharCode(code & 255, (code >>> 8) & 255, (code >>> 16) & 255, code >>> 24);
  const unit = letters === "COUN" ? "count" : letters.replaceAll("\0", "");
  units.set(code, unit);
  return unit;
}

function lines(bytes: Uint8Array): string[] {
  const texts = new TextDecoder().decode(bytes).split("\n");
  texts.pop();
  return texts;
}

export interface Spark {
  row: number;
  /** How many of the buckets are known: the last ones. */
  filled: number;
  /** Spent in each 30 s, oldest first; 0 where it is not known. */
  buckets: Float64Array;
}

export function readSparks(frame: Frame): Spark[] {
  const sparks = firstGroup(frame, SPARKS_ENTRY.bytes);
  const steps = readGroup(frame, sparks.end, STEPS_ENTRY.bytes);
  expectEnd(frame, steps.end);
  let step = 0;
  const read = Array.from({ length: sparks.count }, (_, i) => {
    const at = (sparks.from + i * sparks.step) >> 2;
    const row = frame.words[at + (SPARKS_ENTRY.row >> 2)]!;
    const filled = frame.words[at + (SPARKS_ENTRY.filled >> 2)]!;
    if (filled > SPARK_BUCKETS || step + filled > steps.count)
      throw new FrameError(`${filled} steps of row ${row}`);
    const buckets = new Float64Array(SPARK_BUCKETS);
    for (let bucket = SPARK_BUCKETS - filled; bucket < SPARK_BUCKETS; bucket += 1, step += 1) {
      buckets[bucket] = i64(frame.words, (steps.from + step * steps.step + STEPS_ENTRY.spent) >> 2);
    }
    return { row, filled, buckets };
  });
  if (step !== steps.count) throw new FrameError(`${steps.count} steps, expected ${step}`);
  return read;
}

export const writeAcknowledge = (sequence: number): ArrayBuffer =>
  writeBlock(TEMPLATE.acknowledge, ACKNOWLEDGE_BLOCK, sequence, 0).buffer;

export const writeResync = (sequence: number): ArrayBuffer =>
  writeBlock(TEMPLATE.resync, RESYNC_BLOCK, sequence, 0).buffer;

/** The node sends sparklines of these rows, at most 256. */
export function writeWatch(sequence: number, rows: readonly number[]): ArrayBuffer {
  const view = writeBlock(
    TEMPLATE.watch,
    WATCH_BLOCK,
    sequence,
    GROUP_HEADER.bytes + rows.length * ROWS_ENTRY.bytes,
  );
  const group = MESSAGE_HEADER.bytes + WATCH_BLOCK.bytes;
  view.setUint16(group + GROUP_HEADER.blockLength, ROWS_ENTRY.bytes, true);
  view.setUint16(group + GROUP_HEADER.numInGroup, rows.length, true);
  rows.forEach((row, i) =>
    view.setUint32(group + GROUP_HEADER.bytes + i * ROWS_ENTRY.bytes + ROWS_ENTRY.row, row, true),
  );
  return view.buffer;
}

/** A message of the page: header, root block, and room for more. */
function writeBlock(
  template: number,
  block: { bytes: number; sequence: number },
  sequence: number,
  more: number,
): DataView<ArrayBuffer> {
  const view = new DataView(new ArrayBuffer(MESSAGE_HEADER.bytes + block.bytes + more));
  view.setUint16(MESSAGE_HEADER.blockLength, block.bytes, true);
  view.setUint16(MESSAGE_HEADER.templateId, template, true);
  view.setUint16(MESSAGE_HEADER.schemaId, SCHEMA.id, true);
  view.setUint16(MESSAGE_HEADER.version, SCHEMA.version, true);
  view.setBigUint64(MESSAGE_HEADER.bytes + block.sequence, BigInt(sequence), true);
  return view;
}
