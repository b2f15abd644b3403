import { describe, expect, it } from "vitest";
import { isStale } from "../scripts/live-layout.mjs";
import {
  FrameError,
  SCHEMA,
  TEMPLATE,
  applyDelta,
  applyPart,
  readFrame,
  readSparks,
  tableFor,
  writeAcknowledge,
  writeResync,
  writeWatch,
} from "../src/live/codec";
import {
  FLAG,
  FLAG_NAMES,
  KINDS,
  PACINGS,
  REASONS,
  STATES_ENTRY,
  STATUSES,
  VERDICTS,
} from "../src/live/layout";
import {
  AMOUNTS,
  RATES,
  TIMES,
  type Table,
  emptyTable,
  setWindow,
  tightestWindow,
  windowPart,
} from "../src/live/table";
import { type Values, goldenBytes, goldenJson } from "./golden";

const NULL_I64 = String(-(2n ** 63n));
const NULL_U64 = String(2n ** 64n - 1n);
const FIELD_OF: Record<string, string> = {
  since: "sinceMs",
  windowStart: "windowStartMs",
  windowEnd: "windowEndMs",
  dayEnds: "dayEndsMs",
};
const GROUP_AT = 8 + 24;
const STATE = STATES_ENTRY.bytes;
const SPARKS_AT = 8 + 20;

const number = (value: string | number | undefined, none: string): number =>
  value === none ? NaN : Number(value);
/** The schema's word for a code that says nothing. */
const word = (list: readonly string[], code: number | undefined): string => list[code ?? 255] || "none";

function expectState(table: Table, row: number, values: Values): void {
  for (const name of AMOUNTS) expect(table[name][row], name).toBe(number(values[name], NULL_I64));
  for (const name of TIMES) expect(table[name][row], name).toBe(number(values[FIELD_OF[name]!], NULL_U64));
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

describe("the layout", () => {
  it("is what schema/live.xml says", () => expect(isStale()).toBe(false));

  it("flags are bits", () => expect(FLAG_NAMES.map((name) => FLAG[name])).toEqual([1, 2, 4, 8]));
});

describe("golden vectors", () => {
  it.each([
    ["snapshot", 2],
    ["snapshot_empty", 0],
    ["delta", 2],
    ["delta_empty", 0],
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

  it("delta", () => {
    const table = emptyTable(2);
    applyDelta(table, readFrame(goldenBytes("delta")));
    for (const values of goldenJson("delta").fields.states!) expectState(table, Number(values.row), values);
    expect([...table.version]).toEqual([1, 1]);
    expect([tightestWindow(table, 0), tightestWindow(table, 1), table.hidden]).toEqual([3, -1, 990_000]);
  });

  it("a window that is gone is gone with the next state of its row", () => {
    const table = emptyTable(2);
    setWindow(table, 0, 0, true, 10, 9);
    setWindow(table, 1, 4, false, 10, 9);
    applyDelta(table, readFrame(goldenBytes("delta")));
    expect([...table.windowed]).toEqual([1 << 3, 0]);
    expect([windowPart(table, 0, 0), windowPart(table, 4, 1), table.buckets[0]]).toEqual([NaN, NaN, 0]);
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

  it("are refused before a record is written", () => {
    const table = emptyTable(2);
    const short = goldenBytes("delta").slice(0, 200);
    const entries = changed("delta", (view) => view.setUint16(GROUP_AT + 2, 3, true));
    const narrow = changed("delta", (view) => view.setUint16(GROUP_AT, 64, true));
    const odd = changed("delta", (view) => view.setUint16(GROUP_AT, 146, true));
    const row = changed("delta", (view) => view.setUint32(GROUP_AT + 4, 2, true));
    const window = changed("delta", (view) => view.setUint32(GROUP_AT + 4 + 2 * STATE + 4, 2, true));
    for (const bytes of [short, entries, narrow, odd, row, window])
      expect(() => applyDelta(table, readFrame(bytes))).toThrow(FrameError);
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
      delta: (bytes) => applyDelta(emptyTable(2), readFrame(bytes)),
      sparks: (bytes) => void readSparks(readFrame(bytes)),
    };
    for (const [name, take] of Object.entries(apply)) {
      const whole = goldenBytes(name);
      for (let bytes = 0; bytes < whole.byteLength; bytes += 1)
        expect(() => take(whole.slice(0, bytes)), `${name} ${bytes}`).toThrow(FrameError);
    }
  });

  it("longer blocks and entries are stepped over", () => {
    const short = new Uint8Array(goldenBytes("delta"));
    const long = new Uint8Array(8 + 28 + 4 + 2 * (STATE + 8) + 4 + 24);
    long.set(short.subarray(0, GROUP_AT));
    long.set(short.subarray(GROUP_AT, GROUP_AT + 4), GROUP_AT + 4);
    for (const i of [0, 1])
      long.set(
        short.subarray(GROUP_AT + 4 + i * STATE, GROUP_AT + 4 + (i + 1) * STATE),
        GROUP_AT + 8 + i * (STATE + 8),
      );
    const view = new DataView(long.buffer);
    long.set(short.subarray(GROUP_AT + 4 + 2 * STATE), GROUP_AT + 8 + 2 * (STATE + 8));
    view.setUint16(0, 28, true);
    view.setUint16(GROUP_AT + 4, STATE + 8, true);
    const table = emptyTable(2);
    applyDelta(table, readFrame(long.buffer));
    for (const values of goldenJson("delta").fields.states!) expectState(table, Number(values.row), values);
  });
});
