import { describe, expect, it } from "vitest";
import { isStale } from "../scripts/live-layout.mjs";
import {
  FrameError,
  SCHEMA,
  TEMPLATE,
  applyPart,
  applyPatch,
  readFrame,
  readSparks,
  tableFor,
  writeAcknowledge,
  writeResync,
  writeWatch,
} from "../src/live/codec";
import {
  CHANGES_ENTRY,
  FLAG,
  FLAG_NAMES,
  KINDS,
  PACINGS,
  PATCH_BLOCK,
  REASONS,
  STATES_ENTRY,
  STATUSES,
  VERDICTS,
} from "../src/live/layout";
import {
  AMOUNTS,
  COUNTS,
  RATES,
  TIMES,
  type Table,
  WIDE,
  bitsOf,
  emptyTable,
  tightestWindow,
  windowPart,
  wordOf,
} from "../src/live/table";
import { type Values, goldenBytes, goldenJson } from "./golden";
import { numbers } from "./made";

const NULL_I64 = String(-(2n ** 63n));
const NULL_U64 = String(2n ** 64n - 1n);
const FIELD_OF: Record<string, string> = {
  since: "sinceMs",
  windowStart: "windowStartMs",
  windowEnd: "windowEndMs",
  dayEnds: "dayEndsMs",
};
const GROUP_AT = 8 + PATCH_BLOCK.bytes;
const CHANGE = CHANGES_ENTRY.bytes;
const PERIODS = STATES_ENTRY.bytes / 4;
const SPARKS_AT = 8 + 20;

const number = (value: string | number | undefined, none: string): number =>
  value === none ? NaN : Number(value);
/** The schema's word for a code that says nothing. */
const word = (list: readonly string[], code: number | undefined): string => list[code ?? 255] || "none";

function expectState(table: Table, row: number, values: Values): void {
  for (const name of AMOUNTS) expect(table[name][row], name).toBe(number(values[name], NULL_I64));
  for (const name of TIMES) expect(table[name][row], name).toBe(number(values[FIELD_OF[name]!], NULL_U64));
  for (const name of COUNTS) expect(table[name][row], name).toBe(number(values[name], NULL_U64));
  for (const name of RATES) expect(table[name][row], name).toBe(values[name]);
  expect(table.flags[row]).toBe(values.flags);
  const words = [
    word(STATUSES, table.status[row]),
    word(REASONS, table.reason[row]),
    word(VERDICTS, table.topRefusal[row]),
  ];
  expect(words).toEqual([values.status, values.reason, values.topRefusal]);
}

function expectBudget(table: Table, row: number, values: Values): void {
  expect([table.ids[row], table.parents[row]]).toEqual([
    String(values.id),
    values.parent === NULL_U64 ? null : String(values.parent),
  ]);
  expect([table.start[row], table.end[row]]).toEqual([
    number(values.startMs, NULL_U64),
    number(values.endMs, NULL_U64),
  ]);
  expect([word(PACINGS, table.pacing[row]), word(KINDS, table.campaign[row])]).toEqual([
    values.pacing,
    values.kind,
  ]);
}

function started(): Table {
  const frame = readFrame(goldenBytes("snapshot"));
  const table = tableFor(frame);
  applyPart(table, frame);
  return table;
}

const UNSIGNED = new Set([...TIMES, ...COUNTS].map(wordOf));

/** A value of 64 bits as a page keeps it. */
function valueAt(words: Uint32Array, at: number): number {
  const value = (BigInt(words[at + 1]!) << 32n) | BigInt(words[at]!);
  if (UNSIGNED.has(at)) return value === 2n ** 64n - 1n ? NaN : Number(value);
  return value === 2n ** 63n ? NaN : Number(BigInt.asIntN(64, value));
}

/** Changes one word, or a value: small ones, negative ones, rounded ones, null; or which windows there are. */
function change(words: Uint32Array, random: () => number): void {
  const at = 1 + Math.floor(random() * 62);
  if (at === PERIODS || at === PERIODS + 1) {
    const kinds = Math.floor(random() * 32);
    words[PERIODS] = kinds | ((Math.floor(random() * 32) & kinds) << 8);
    for (let word = PERIODS + 2; word < 64; word += 1)
      words[word] = (kinds >> ((word - PERIODS - 2) >> 2)) & 1 ? words[word]! : 0;
  } else if (at > 31 && at < 36) words[at] = random() * 2 ** 32;
  else if (at > 1) {
    const low = at & ~1;
    if (low > PERIODS && ((words[PERIODS]! >> ((low - PERIODS - 2) >> 2)) & 1) === 0) return;
    const [least, most] = [-(2n ** 63n), 2n ** 63n];
    const values = [
      0n,
      5n,
      -5n,
      least,
      -1n,
      2n ** 32n - 1n,
      2n ** 32n,
      2n ** 53n - 1n,
      2n ** 53n + 1n,
      most - 1n,
    ];
    const value = BigInt.asUintN(64, values[Math.floor(random() * values.length)]!);
    [words[low], words[low + 1]] = [Number(value & 0xffff_ffffn), Number(value >> 32n)];
  }
}

/** As the node says what changed. */
function patchOf(before: Uint32Array, now: Uint32Array): ArrayBuffer {
  let mask = 0n;
  const isSafe = (words: Uint32Array, at: number) => {
    const bits = (BigInt(words[at + 1]!) << 32n) | BigInt(words[at]!);
    const value = UNSIGNED.has(at) ? bits : BigInt.asIntN(64, bits);
    return value < 2n ** 53n && value > -(2n ** 53n);
  };
  const isWide = (at: number) => (at > 1 && at < 32) || (at > 35 && at < PERIODS) || at > PERIODS + 1;
  for (let at = 1; at < 64; at += 1) {
    if (before[at] === now[at]) continue;
    const low = at & ~1;
    const both =
      isWide(at) && (before[low + 1] !== now[low + 1] || !isSafe(before, low) || !isSafe(now, low));
    mask |= both ? 3n << BigInt(low) : 1n << BigInt(at);
  }
  const words = [...now].filter((_, at) => (mask >> BigInt(at)) & 1n);
  const from = GROUP_AT + 4 + CHANGE + 4;
  const bytes = new Uint8Array(from + 4 * words.length);
  bytes.set(new Uint8Array(goldenBytes("patch")).subarray(0, GROUP_AT + 4));
  const view = new DataView(bytes.buffer);
  view.setUint16(GROUP_AT + 2, 1, true);
  view.setBigUint64(GROUP_AT + 8, mask, true);
  view.setUint32(from - 4, 4 * words.length, true);
  words.forEach((word, i) => view.setUint32(from + 4 * i, word, true));
  return bytes.buffer;
}

describe("the layout", () => {
  it("is what schema/live.xml says", () => expect(isStale()).toBe(false));

  it("flags are bits", () => expect(FLAG_NAMES.map((name) => FLAG[name])).toEqual([1, 2, 4, 8]));
});

describe("golden vectors", () => {
  it.each([
    ["snapshot", 2],
    ["snapshot_empty", 0],
    ["patch", 2],
    ["sparks", 3],
  ])("header of %s", (name, count) => {
    const { templateId, fields } = goldenJson(name);
    const { header } = readFrame(goldenBytes(name));
    expect(header).toMatchObject({ schema: SCHEMA.id, version: SCHEMA.version, template: templateId, count });
    expect([header.sequence, header.asOfMs, header.run]).toEqual(
      [fields.sequence, fields.asOfMs, fields.run].map(Number),
    );
  });

  it("snapshot", () => {
    const frame = readFrame(goldenBytes("snapshot"));
    const table = tableFor(frame);
    applyPart(table, frame);
    const { budgets, states } = goldenJson("snapshot").fields;
    budgets!.forEach((values, row) => expectBudget(table, row, values));
    states!.forEach((values, row) => expectState(table, row, values));
    expect([table.names, table.zones, table.units]).toEqual([
      ["spring sale", "Schlüssel ✓"],
      ["America/New_York", "UTC"],
      ["USD", "count"],
    ]);
    expect([...table.spent].map(Number.isSafeInteger)).toEqual([true, false]);
    expect([table.handles, table.templates]).toEqual([
      ["", "team-42/gpt-5"],
      ["", "{team}/{model}"],
    ]);
    expect([[...table.windowed], [...table.buckets], table.hidden]).toEqual([[0b10001, 0], [1, 0], 7]);
    expect([windowPart(table, 0, 0), windowPart(table, 4, 0), windowPart(table, 0, 1)]).toEqual([
      0.82,
      0.82,
      NaN,
    ]);
  });

  it("patch", () => {
    const table = started();
    applyPatch(table, readFrame(goldenBytes("patch")));
    const [plain, extreme] = goldenJson("snapshot").fields.states!;
    expectState(table, 0, { ...plain, held: 1_600_000 });
    const spent = "9007199254740993";
    expectState(table, 1, { ...extreme, spent, impressions: 2 ** 32 + 7 });
    expect([...table.version]).toEqual([2, 2]);
    expect([tightestWindow(table, 0), windowPart(table, 0, 0), table.hidden]).toEqual([3, NaN, 0]);
    expect([table.changed.with(bitsOf(["held"])), table.changed.with(bitsOf(["status", "held"]))]).toEqual([
      Uint32Array.of(0),
      Uint32Array.of(1, 0),
    ]);
    expect(table.changed.with(bitsOf(["limit", "asks"]))).toHaveLength(0);
  });

  it("patches in order are the whole state", () => {
    const [random, table] = [numbers(3), emptyTable(1)];
    let before = new Uint32Array(64);
    for (let round = 0; round < 4_000; round += 1) {
      const now = before.slice();
      for (let changes = 0; changes < 3; changes += 1) change(now, random);
      applyPatch(table, readFrame(patchOf(before, now)));
      const kinds = now[PERIODS]!;
      for (const name of WIDE) expect(table[name][0], name).toBe(valueAt(now, wordOf(name)));
      for (const name of RATES) expect(table[name][0], name).toBe(now[wordOf(name)]);
      for (let period = 0; period < 5; period += 1) {
        const used = valueAt(now, PERIODS + 4 + 4 * period) / valueAt(now, PERIODS + 2 + 4 * period);
        expect(windowPart(table, period, 0), `${round} ${period}`).toBe((kinds >> period) & 1 ? used : NaN);
      }
      expect([table.windowed[0], table.buckets[0]]).toEqual([kinds & 31, kinds >> 8]);
      before = now;
    }
  });

  it("sparks", () => {
    const { sparks, steps } = goldenJson("sparks").fields;
    const read = readSparks(readFrame(goldenBytes("sparks")));
    expect(read.map(({ row, filled }) => ({ row, filled }))).toEqual(sparks);
    expect(read.flatMap(({ buckets, filled }) => [...buckets.slice(20 - filled)])).toEqual(
      steps!.map(({ spent }) => Number(spent)),
    );
    expect(
      read.every(
        ({ buckets, filled }) =>
          buckets.length === 20 && buckets.slice(0, 20 - filled).every((spent) => spent === 0),
      ),
    ).toBe(true);
  });

  it("the page's messages", () => {
    const sequence = (name: string): number => Number(goldenJson(name).fields.sequence);
    const rows = goldenJson("watch").fields.rows!.map(({ row }) => Number(row));
    expect(writeAcknowledge(sequence("acknowledge"))).toEqual(goldenBytes("acknowledge"));
    expect(writeWatch(sequence("watch"), rows)).toEqual(goldenBytes("watch"));
    expect(writeResync(sequence("resync"))).toEqual(goldenBytes("resync"));
    const ids = ["acknowledge", "watch", "resync"].map((name) => goldenJson(name).templateId);
    expect(ids).toEqual([TEMPLATE.acknowledge, TEMPLATE.watch, TEMPLATE.resync]);
  });
});

describe("messages that do not fit", () => {
  const changed = (name: string, change: (view: DataView) => void): ArrayBuffer => {
    const bytes = goldenBytes(name);
    change(new DataView(bytes));
    return bytes;
  };

  it("are refused before a word is written", () => {
    const table = emptyTable(2);
    const short = goldenBytes("patch").slice(0, 80);
    const entries = changed("patch", (view) => view.setUint16(GROUP_AT + 2, 3, true));
    const narrow = changed("patch", (view) => view.setUint16(GROUP_AT, 8, true));
    const odd = changed("patch", (view) => view.setUint16(GROUP_AT, 14, true));
    const row = changed("patch", (view) => view.setUint32(GROUP_AT + 4, 2, true));
    const more = changed("patch", (view) => view.setUint32(GROUP_AT + 8, 1, true));
    for (const bytes of [short, entries, narrow, odd, row, more])
      expect(() => applyPatch(table, readFrame(bytes))).toThrow(FrameError);
    expect([...table.version]).toEqual([0, 0]);
  });

  it("a part beyond its table", () => {
    const frame = readFrame(changed("snapshot", (view) => view.setUint32(8 + 20, 1, true)));
    expect(() => applyPart(tableFor(frame), frame)).toThrow(FrameError);
  });

  it("sparks with more or fewer steps than they say", () => {
    for (const filled of [0, 4, 21]) {
      const frame = readFrame(changed("sparks", (view) => view.setUint32(SPARKS_AT + 4 + 4, filled, true)));
      expect(() => readSparks(frame)).toThrow(FrameError);
    }
  });

  it("no beginning of any message is taken", () => {
    const apply: Record<string, (bytes: ArrayBuffer) => void> = {
      snapshot: (bytes) => applyPart(emptyTable(2), readFrame(bytes)),
      patch: (bytes) => applyPatch(emptyTable(2), readFrame(bytes)),
      sparks: (bytes) => void readSparks(readFrame(bytes)),
    };
    for (const [name, take] of Object.entries(apply)) {
      const whole = goldenBytes(name);
      for (let bytes = 0; bytes < whole.byteLength; bytes += 1)
        expect(() => take(whole.slice(0, bytes)), `${name} ${bytes}`).toThrow(FrameError);
    }
  });

  it("longer blocks and entries are stepped over", () => {
    const short = new Uint8Array(goldenBytes("patch"));
    const long = new Uint8Array(short.length + 4 + 2 * 8);
    const words = GROUP_AT + 4 + 2 * CHANGE;
    long.set(short.subarray(0, GROUP_AT));
    long.set(short.subarray(GROUP_AT, GROUP_AT + 4), GROUP_AT + 4);
    for (const i of [0, 1]) {
      const from = GROUP_AT + 4 + i * CHANGE;
      long.set(short.subarray(from, from + CHANGE), GROUP_AT + 8 + i * (CHANGE + 8));
    }
    long.set(short.subarray(words), GROUP_AT + 8 + 2 * (CHANGE + 8));
    const view = new DataView(long.buffer);
    view.setUint16(0, PATCH_BLOCK.bytes + 4, true);
    view.setUint16(GROUP_AT + 4, CHANGE + 8, true);
    const table = started();
    applyPatch(table, readFrame(long.buffer));
    expect([table.held[0], table.impressions[1]]).toEqual([1_600_000, 2 ** 32 + 7]);
  });
});
