import { describe, expect, it } from "vitest";
import { waitMs } from "../src/live/backoff";
import { type Frame, readFrame } from "../src/live/codec";
import { BUDGETS_ENTRY, PATCH_BLOCK, SNAPSHOT_BLOCK, STATES_ENTRY } from "../src/live/layout";
import { Freshness, TICK_MS } from "../src/live/freshness";
import { Sequence } from "../src/live/sequence";
import { askedShape } from "../src/ui/FreshnessBadge";
import { goldenBytes } from "./golden";

const BLOCK_AT = 8;
/** Two budgets lie before the states of the golden snapshot. */
const STATES_AT = BLOCK_AT + SNAPSHOT_BLOCK.bytes + 4 + 2 * BUDGETS_ENTRY.bytes + 4;
const FIRST_ROW_AT = BLOCK_AT + SNAPSHOT_BLOCK.firstRow;
const ROWS_TOTAL_AT = BLOCK_AT + SNAPSHOT_BLOCK.rowsTotal;
const PATCH_ROW_AT = 8 + PATCH_BLOCK.bytes + 4;

function frame(name: string, sequence: number, change: (view: DataView) => void = () => undefined): Frame {
  const bytes = goldenBytes(name);
  const view = new DataView(bytes);
  view.setBigUint64(BLOCK_AT, BigInt(sequence), true);
  change(view);
  return readFrame(bytes);
}

function started(): Sequence {
  const sequence = new Sequence();
  sequence.take(frame("snapshot", 1));
  return sequence;
}

describe("sequence", () => {
  it("snapshot, then patches", () => {
    const sequence = new Sequence();
    expect(sequence.take(frame("snapshot", 1))).toEqual({ does: "load", isWhole: true });
    expect(sequence.take(frame("patch", 2))).toEqual({ does: "acknowledge" });
    expect(sequence.take(frame("patch", 3))).toEqual({ does: "acknowledge" });
    expect(sequence.table?.version[0]).toBe(3);
  });

  it("a repeated frame is ignored", () => expect(started().take(frame("patch", 1)).does).toBe("ignore"));

  it("a gap asks for a snapshot, keeps the old figures, and ignores what comes between", () => {
    const sequence = started();
    const old = sequence.table;
    expect(sequence.take(frame("patch", 3)).does).toBe("resync");
    expect(sequence.last).toBe(3);
    expect(sequence.take(frame("patch", 4)).does).toBe("resync");
    expect(sequence.table).toBe(old);
    expect(sequence.take(frame("snapshot", 5)).does).toBe("load");
    expect(sequence.table).not.toBe(old);
  });

  it("a snapshot in parts is shown when it is whole", () => {
    const sequence = started();
    const old = sequence.table;
    const first = (view: DataView) => view.setUint32(ROWS_TOTAL_AT, 4, true);
    const second = (view: DataView) => {
      first(view);
      view.setUint32(FIRST_ROW_AT, 2, true);
      for (const row of [0, 1]) view.setUint32(STATES_AT + row * STATES_ENTRY.bytes, row + 2, true);
    };
    expect(sequence.take(frame("snapshot", 2, first))).toEqual({ does: "load", isWhole: false });
    expect([sequence.loaded, sequence.table]).toEqual([2, old]);
    expect(sequence.take(frame("snapshot", 3, second))).toEqual({ does: "load", isWhole: true });
    expect(sequence.table?.ids).toEqual(["17", "18446744073709551614", "17", "18446744073709551614"]);
  });

  it("the first snapshot can be looked at from its first part on; each look has texts of its own", () => {
    const sequence = new Sequence();
    const part = (firstRow: number) => (view: DataView) => {
      view.setUint32(ROWS_TOTAL_AT, 8, true);
      view.setUint32(FIRST_ROW_AT, firstRow, true);
      for (const row of [0, 1]) view.setUint32(STATES_AT + row * STATES_ENTRY.bytes, firstRow + row, true);
    };
    const looks = [0, 2, 4, 6].map((firstRow, i) => {
      sequence.take(frame("snapshot", i + 1, part(firstRow)));
      return sequence.head;
    });
    expect(looks.map((look) => look?.rows)).toEqual([2, 4, 4, undefined]);
    expect(looks.map((look) => look?.ids.length)).toEqual([2, 4, 4, undefined]);
    expect(looks[1]!.spent.length).toBe(4);
    expect([sequence.table?.rows, sequence.table?.units]).toEqual([8, expect.not.arrayContaining([""])]);
  });

  it("a part is accepted before it is read, and only if it is the next one", () => {
    const loaded: number[] = [];
    const sequence: Sequence = new Sequence(() => loaded.push(sequence.loaded));
    const first = (view: DataView) => view.setUint32(ROWS_TOTAL_AT, 4, true);
    sequence.take(frame("snapshot", 1, first));
    sequence.take(frame("snapshot", 1, first));
    expect(loaded).toEqual([0]);
    sequence.take(frame("snapshot", 3, first));
    sequence.take(frame("patch", 4));
    expect(loaded).toEqual([0]);
  });

  it("a missing part, a patch before its snapshot, an unknown kind, a wrong row", () => {
    expect(new Sequence().take(frame("patch", 1)).does).toBe("resync");
    expect(
      new Sequence().take(
        frame("snapshot", 1, (view) => {
          view.setUint32(FIRST_ROW_AT, 2, true);
          view.setUint32(ROWS_TOTAL_AT, 4, true);
        }),
      ).does,
    ).toBe("resync");
    expect(started().take(frame("patch", 2, (view) => view.setUint16(2, 9, true))).does).toBe("resync");
    expect(started().take(frame("patch", 2, (view) => view.setUint32(PATCH_ROW_AT, 77, true))).does).toBe(
      "resync",
    );
  });

  it("an older version and another schema are final, a newer version is not", () => {
    const with16 = (at: number, value: number) =>
      new Sequence().take(frame("snapshot", 1, (view) => view.setUint16(at, value, true))).does;
    expect([with16(6, 2), with16(4, 7701), with16(6, 4)]).toEqual(["leave", "leave", "load"]);
  });

  it("a node without budgets is live", () => {
    const sequence = new Sequence();
    expect(sequence.take(frame("snapshot_empty", 1))).toEqual({ does: "load", isWhole: true });
    expect(sequence.table?.rows).toBe(0);
  });

  it("a new connection counts from one and needs a snapshot", () => {
    const sequence = started();
    sequence.restart();
    expect(sequence.take(frame("patch", 1)).does).toBe("resync");
    expect(sequence.take(frame("snapshot", 2)).does).toBe("load");
  });
});

describe("freshness", () => {
  const wrongClock = 3_600_000;

  it("does not believe the browser's clock", () => {
    const freshness = new Freshness();
    freshness.heard(1_000_000, 1_000_050 + wrongClock);
    freshness.heard(1_002_000, 1_002_350 + wrongClock);
    expect(freshness.ageMs(1_002_350 + wrongClock)).toBe(300);
    expect(freshness.nodeMs(1_002_050 + wrongClock)).toBe(1_002_000);
  });

  it("is late after two missed ticks, stale after five", () => {
    const freshness = new Freshness();
    freshness.heard(0, 0);
    const states = [1, 2.9, 3, 5.9, 6].map((ticks) => freshness.state(ticks * TICK_MS));
    expect(states).toEqual(["fresh", "fresh", "late", "late", "stale"]);
    expect(new Freshness().state(0)).toBe("stale");
  });
});

describe("what a page asked for", () => {
  const problem = { type: "about:blank", title: "stopping", status: 503, detail: "" };
  it.each([
    [NaN, null, "none"],
    [0, null, "fresh"],
    [5_999, null, "fresh"],
    [6_000, null, "late"],
    [12_000, null, "stale"],
    [0, problem, "stale"],
  ])("%d ms after it came, with the problem %o: %s", (ageMs, problem, shape) =>
    expect(askedShape({ atMs: -ageMs, everyMs: 2_000, problem }, 0)).toBe(shape),
  );
});

describe("back-off", () => {
  it("doubles to four seconds, half of it jitter", () => {
    expect([0, 1, 2, 9].map((attempt) => waitMs(attempt, 1))).toEqual([500, 1000, 2000, 4000]);
    expect(waitMs(9, 0)).toBe(2_000);
  });
});
