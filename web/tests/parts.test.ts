import { decimalText } from "../src/money/money";
import { describe, expect, it } from "vitest";
import { limitChanges } from "../src/campaign/ChangeDialog";
import { byVerdict, keptFrom, noneOf, sampleOf, soFar, whyFast } from "../src/campaign/refusals";
import { Bytes } from "../src/campaigns/bytes";
import { EMPTY_FORM, budgetOf, freeId, parentsFor } from "../src/campaigns/budget";
import { changesOf, missing, parsePercent } from "../src/campaigns/bulk";
import { csvCell, csvChunks } from "../src/campaigns/csv";
import { periodsOf, windowChange, windowForm } from "../src/campaign/windows";
import { HANDLE_WORDS, isHandle } from "../src/url/handle";
import { fnv, sourcesHash } from "../scripts/sources.mjs";
import { effectWords, undoUnknownWords } from "../src/campaigns/effect";
import { COMMON, parseViews, withView } from "../src/campaigns/views";
import { fixedNanos, nanos, noBalance, ratioWords, reading } from "../src/costs/nanos";
import { lastChangePpm, sparkOf } from "../src/costs/spark";
import {
  HEAT_US,
  answeredLately,
  errorWords,
  grantedPerS,
  heatColumn,
  ink,
  quantile,
  unmeasured,
} from "../src/engine/heat";
import { roomOf } from "../src/grid/cells";
import { columnOf } from "../src/grid/columns";
import { reordered } from "../src/grid/Grid";
import { move } from "../src/grid/keyboard";
import { REASONS, STATUSES, VERDICTS, reasonOf, sentence } from "../src/live/codes";
import { bandOf, paceText } from "../src/ui/status";
import { span } from "../src/ui/time";
import { parseView, viewText } from "../src/url/view";
import * as answers from "./answers";
import { numbers, tableOf } from "./made";

const written = (chunks: Iterable<Uint8Array>): string =>
  Array.from(chunks, (chunk) => new TextDecoder().decode(chunk)).join("");

describe("text in bytes", () => {
  it("is what text in strings would be", () => {
    const bytes = new Bytes();
    const values = [
      0,
      7,
      -7,
      999_999_999,
      1e9,
      1_000_000_001,
      -12_345_678_901,
      2 ** 53 - 1,
      2 ** 53,
      -(2 ** 62),
    ];
    const texts = ["a", "", "Zürich, “x”", "x".repeat(200_000), "\u{1f600}"];
    for (const value of [...values, NaN]) bytes.whole(value);
    for (const text of texts) bytes.text(text);
    expect(written([bytes.take(), bytes.take()])).toBe(values.join("") + texts.join(""));
  });
});

describe("decimals of bytes", () => {
  it("millionths are those of toFixed, but for the last one where a value lies between two", () => {
    const random = numbers(11);
    const bytes = new Bytes();
    const cases = [0, -0, 1, 0.95, 1e-7, 4.9e-7, 0.999_999_6, 123.456, 9_007_199_254.5, 1e13, 1e20, -3.25];
    for (let i = 0; i < 3_000; i += 1) cases.push((random() - 0.3) * 10 ** Math.floor(random() * 15 - 5));
    for (const value of cases) {
      bytes.millionths(value);
      const text = written([bytes.take()]);
      expect(text).toMatch(/^-?\d+\.\d{6}$/);
      expect(Math.abs(Number(text) - value)).toBeLessThanOrEqual(0.500_001e-6 + Math.abs(value) * 2 ** -51);
    }
    bytes.millionths(NaN);
    expect(bytes.take()).toHaveLength(0);
  });
});

describe("csv", () => {
  it("is what one would write cell by cell", () => {
    const random = numbers(12);
    const pick = <T>(among: readonly T[]): T => among[Math.floor(random() * among.length)]!;
    const table = tableOf(
      Array.from({ length: 1_300 }, (_, i) => ({
        name: pick([`row ${i}`, `=sum(${i})`, 'say "no"', "a,b", "Zürich", "-5", "-x", "line\nbreak", ""]),
        unit: pick(["USD", "EUR", "count"]),
        zone: pick(["UTC", "Europe/Paris"]),
        status: Math.floor(random() * 8),
        spent: Math.floor((random() - 0.2) * 10 ** Math.floor(random() * 17)),
        end: pick([NaN, 1_780_272_000_000 + i * 60_000, 1_780_272_000_000]),
        planned: pick([NaN, 0, 64]),
        windowSpent: Math.floor(random() * 640),
      })),
    );
    const rows = Uint32Array.from({ length: table.rows }, (_, i) => (i * 7) % table.rows);
    const keys = ["name", "zone", "spent", "pace", "end", "asks", "status", "flags"];
    const line = (row: number): string => {
      const [end, planned] = [table.end[row]!, table.windowPlanned[row]!];
      return [
        table.ids[row]!,
        csvCell(table.names[row]!),
        table.zones[row]!,
        decimalText(table.spent[row]!, table.units[row]!),
        planned > 0 ? (table.windowSpent[row]! / planned).toFixed(6) : "",
        Number.isNaN(end) ? "" : new Date(end).toISOString(),
        String(table.asks[row]! / 100),
        STATUSES[table.status[row]!]!,
        "",
        table.units[row]!,
        "",
      ].join(",");
    };
    const head = "id,name,zone,spent,pace,end,asks,status,flags,unit,reason";
    expect(written(csvChunks(table, rows, keys))).toBe(
      [head, ...[...rows].map(line)].map((text) => `${text}\r\n`).join(""),
    );
  });
  it("exact amounts in their unit, ISO times, id and unit always", () => {
    const table = tableOf([
      { name: 'a "quoted", name', spent: 12_500_001, planned: 100, windowSpent: 95, end: 1_780_272_000_000 },
    ]);
    expect(written(csvChunks(table, Uint32Array.of(0), ["name", "spent", "pace", "end", "status"]))).toBe(
      'id,name,spent,pace,end,status,unit,reason\r\n100,"a ""quoted"", name",12.500001,0.950000,2026-06-01T00:00:00.000Z,active,USD,\r\n',
    );
  });
  it("prices and rates of what was booked; nothing without a divisor", () => {
    const table = tableOf([{}, {}]);
    table.booked.set([2_000_001, 5]);
    table.impressions.set([800, NaN]);
    table.clicks.set([10, NaN]);
    expect(
      written(csvChunks(table, Uint32Array.of(0, 1), ["impressions", "clicks", "ctr", "cpm", "cpc"])),
    ).toBe(
      "id,impressions,clicks,ctr,cpm,cpc,unit\r\n100,800,10,0.0125,2.500002,0.200001,USD\r\n101,,,,,,USD\r\n",
    );
  });
  it("no formulas from names, but negative numbers stay", () =>
    expect(["=1+1", "@x", "-cmd", "-5", "+1"].map(csvCell)).toEqual(["'=1+1", "'@x", "'-cmd", "-5", "'+1"]));
  it("in chunks", () =>
    expect([
      ...csvChunks(
        tableOf(Array.from({ length: 4_500 }, () => ({}))),
        Uint32Array.from({ length: 4_500 }, (_, i) => i),
        ["name"],
      ),
    ]).toHaveLength(10));
});

describe("bulk", () => {
  it("changes, or what is wrong", () => {
    expect(changesOf({ action: "pause" }, ["USD", "EUR"])).toBeNull();
    expect(changesOf({ action: "set", column: "daily", text: "12.5" }, ["USD"])).toEqual({ daily: "12.5" });
    expect(changesOf({ action: "scale", column: "limit", text: "110" }, ["USD", "EUR"])).toEqual({
      limit_ppm: 1_100_000,
    });
    for (const wrong of [
      changesOf({ action: "set", column: "limit", text: "1" }, ["USD", "EUR"]),
      changesOf({ action: "set", column: "limit", text: "-1" }, ["USD"]),
      changesOf({ action: "scale", column: "limit", text: "x" }, ["USD"]),
    ])
      expect(wrong).toBeTypeOf("string");
  });
  it("percents without floats", () =>
    expect(["110", "87.5", "0.0001", "0", "1.00001", "abc"].map(parsePercent)).toEqual([
      1_100_000,
      875_000,
      1,
      null,
      null,
      null,
    ]));
  it("wants a reason, and the number above a hundred rows", () => {
    expect(missing(0, "", "why")).not.toBeNull();
    expect(missing(5, "", "no")).not.toBeNull();
    expect(missing(100, "", "why")).toBeNull();
    expect(missing(1204, "1203", "why")).not.toBeNull();
    expect(missing(1204, "1,204", "why")).toBeNull();
  });
});

describe("one campaign", () => {
  it("sends only what differs", () => {
    const budget = { limit: "1000000", daily: null, unit: "USD" };
    expect(limitChanges(budget, "2", "")).toEqual({ limit: "2" });
    expect(limitChanges(budget, "1", "0.5")).toEqual({ daily: "0.5" });
    expect(limitChanges({ ...budget, daily: "5" }, "1", "")).toEqual({ daily: null });
    for (const wrong of [
      limitChanges(budget, "1", ""),
      limitChanges(budget, "x", ""),
      limitChanges(budget, "1", "x"),
    ])
      expect(wrong).toBeTypeOf("string");
  });
  it("pace is cut", () =>
    expect([NaN, 0.949, 0.95, 0.57, 1.999].map(paceText)).toEqual(["–", "0.94", "0.95", "0.57", "1.99"]));
  it("bands", () =>
    expect([NaN, 0.94, 0.95, 1.05, 1.06].map(bandOf)).toEqual(["none", "under", "on", "on", "over"]));
});

describe("what a change means in money", () => {
  const line = {
    unit: "USD",
    rows: 2,
    limit_before: "5000000",
    limit_after: "7500000",
    available_before: "2000000",
    spend_minute: "310000",
  };
  it("says what stops, what may be spent, what is taken away", () => {
    expect(effectWords({ action: "pause" }, line)).toContain("0.31 USD a minute; 2.00 USD stay unspent");
    expect(effectWords({ action: "resume" }, line)).toContain("2.00 USD");
    expect(effectWords({ action: "set", column: "limit", text: "" }, line)).toBe(
      "Lets up to 2.50 USD more be spent.",
    );
    expect(
      effectWords({ action: "scale", column: "limit", text: "" }, { ...line, limit_after: "4000000" }),
    ).toContain("Takes 1.00 USD away");
    expect(effectWords({ action: "set", column: "daily", text: "" }, line)).toContain(
      "Lifetime limits of 5.00 USD stay",
    );
  });
});

describe("a new budget", () => {
  const form = { ...EMPTY_FORM, id: "17", name: " Spring ", limit: "1 000.50", why: "new client" };
  it("becomes fields of the budgets file", () => {
    expect(budgetOf(form)).toEqual({
      id: "17",
      name: "Spring",
      unit: "USD",
      limit: "1000.5",
      tz: "UTC",
      pacing: "asap",
    });
    expect(
      budgetOf({ ...form, daily: "50", start: "2026-12-01T00:00", end: "2026-12-31T00:00" }),
    ).toMatchObject({ daily: "50", start: "2026-12-01T00:00:00Z", end: "2026-12-31T00:00:00Z" });
  });
  it("proposes the id above all, and none where there is none", () => {
    expect(freeId([])).toBe("1");
    expect(freeId(["9", "10", "2"])).toBe("11");
    expect(freeId(["4611686018427387904", "18446744073709551615", "3"])).toBe("4");
    expect(freeId(["4611686018427387903", "3"])).toBeNull();
  });
  it("proposes parents of its unit, by id or name", () => {
    const table = {
      ids: ["1", "12", "13"],
      names: ["Spring", "spring, JPY", "Autumn"],
      handles: ["", "", "team/autumn"],
      units: ["USD", "JPY", "USD"],
    };
    const ids = (typed: string) => parentsFor(table, typed, "USD").map(({ id }) => id);
    expect([ids(""), ids("SPR"), ids("1"), ids("13")]).toEqual([["1", "13"], ["1"], ["1", "13"], ["13"]]);
    expect(ids("team/")).toEqual(["13"]);
    expect(parentsFor(table, "", "USD", 1)).toHaveLength(1);
    expect(budgetOf({ ...form, parent: " 1 " })).toMatchObject({ parent: "1" });
    expect(budgetOf({ ...form, parent: "17" })).toBe("No budget is its own parent.");
  });
  it.each([
    ["id", "x"],
    ["parent", "x"],
    ["id", "007"],
    ["id", "18446744073709551616"],
    ["name", " "],
    ["unit", "usd"],
    ["limit", ""],
    ["limit", "-1"],
    ["daily", "x"],
    ["why", "no"],
  ])("%s %s is refused", (field, value) =>
    expect(budgetOf({ ...form, [field]: value })).toBeTypeOf("string"),
  );
  it("a flight that ends before it begins is refused", () =>
    expect(budgetOf({ ...form, start: "2026-12-02T00:00", end: "2026-12-01T00:00" })).toBeTypeOf("string"));
});

describe("named views", () => {
  it("common ones are what the address would say", () => {
    for (const { text } of COMMON) expect(viewText(parseView(text))).toBe(text);
  });
  it("a name stands for one view, and broken storage for none", () => {
    expect(withView([{ name: "a", text: "q=1" }], { name: "a", text: "q=2" })).toEqual([
      { name: "a", text: "q=2" },
    ]);
    expect([null, "x", "7", '[{"name":1}]'].map(parseViews)).toEqual([[], [], [], []]);
  });
});

describe("engine and costs", () => {
  it("heat by share, what is above in the last row", () => {
    const plain = { p50_us: 0, p90_us: 0, p99_us: 0, p999_us: 0, max_us: 0 };
    const column = heatColumn({
      ...plain,
      buckets: [
        { le_us: 5, count: 1 },
        { le_us: 6, count: 2 },
        { le_us: null, count: 1 },
      ],
    });
    expect([column[2], column[3], column[HEAT_US.length]]).toEqual([0.25, 0.5, 0.25]);
    expect(heatColumn({ ...plain, buckets: [] }).every((share) => share === 0)).toBe(true);
    expect([ink(0), ink(1)]).toEqual([0, 1]);
  });
  it("times that mean something", () => {
    expect([null, 0.04, 4.14, 402.3, 12_345].map(nanos)).toEqual([
      "–",
      "0.0 ns",
      "4.1 ns",
      "402 ns",
      "12.3 µs",
    ]);
    expect([reading(null), reading({ below_ns: 9.8 }), reading({ ns: 120, error_ns: 3 })]).toEqual([
      "–",
      "< 9.8 ns",
      "120 ns",
    ]);
  });
  it("another way is dearer or cheaper only beyond doubt", () => {
    const other = { name: "", ns: 1, ours_ns: 1, measured: "" };
    expect(ratioWords({ ...other, ratio: 19.1, ratio_low: 18, ratio_high: 20 })).toBe("19 × ours");
    expect(ratioWords({ ...other, ratio: 0.5, ratio_low: 0.4, ratio_high: 0.6 })).toBe(
      "0.50 × ours, cheaper",
    );
    expect(ratioWords({ ...other, ratio: 1.01, ratio_low: 0.97, ratio_high: 1.05 })).toBe(
      "1.01 ×, no difference",
    );
  });
});

describe("grid", () => {
  const extent = { rows: 100, columns: 5, page: 20 };
  it("keys", () => {
    const from = { position: 50, column: 2 };
    const to = (key: string, ctrl = false) => move(from, key, ctrl, extent);
    expect(to("ArrowDown")).toEqual({ position: 51, column: 2 });
    expect(to("PageUp")).toEqual({ position: 30, column: 2 });
    expect(to("Home", true)).toEqual({ position: 0, column: 0 });
    expect(to("End", true)).toEqual({ position: 99, column: 4 });
    expect(to("End")).toEqual({ position: 50, column: 4 });
    expect(to("a")).toBeNull();
    expect(move({ position: 0, column: 0 }, "ArrowUp", false, extent)).toEqual({ position: -1, column: 0 });
    expect(move({ position: -1, column: 0 }, "ArrowUp", false, extent)).toEqual({ position: -1, column: 0 });
    expect(move({ position: -1, column: 0 }, "ArrowDown", false, { ...extent, rows: 0 })).toEqual({
      position: -1,
      column: 0,
    });
  });
  it("columns change places", () => {
    const columns = ["a", "b", "c"].map((key) => ({ key, width: 1, pinned: false }));
    expect(reordered(columns, "a", "c").map(({ key }) => key)).toEqual(["b", "c", "a"]);
    expect(reordered(columns, "c", "a").map(({ key }) => key)).toEqual(["c", "a", "b"]);
    expect(reordered(columns, "x", "a")).toBe(columns);
  });
  it("spans", () =>
    expect([59_000, 60_000, 3_600_000, 49 * 3_600_000, NaN].map(span)).toEqual([
      "59 s",
      "1 m",
      "1 h 0 m",
      "2 d 1 h",
      "–",
    ]));
});

describe("last refusals", () => {
  const refused = (verdict: string) => ({ at_ms: 1, verdict, budget: "1" });
  it("by verdict, most first", () =>
    expect(byVerdict(["paced", "busy", "paced"].map(refused))).toEqual([
      { verdict: "paced", count: 2 },
      { verdict: "busy", count: 1 },
    ]));
  it("in words, also a verdict of another release", () =>
    expect(["purse_empty", "new_reason", "constructor"].map(sentence)).toEqual([
      "the worker's share of its money is used up",
      "new reason",
      "constructor",
    ]));
  it("every code of the schema has its sentence, and no code has two", () => {
    for (const code of [...REASONS, ...VERDICTS])
      if (code !== "") expect(sentence(code), code).not.toBe(code.replaceAll("_", " "));
    expect(sentence("outbid")).toBe("another campaign of this node goes before it");
  });
  it("a sample is of what the campaign wants", () => {
    const why = [
      { reason: "targeting", count: 377, estimate: 377 },
      { reason: "currency", count: 5, estimate: 5_120 },
    ];
    const sample = sampleOf({
      verdicts: [],
      survey_every: 1_024,
      auctioned: 409_600,
      surveyed: 400,
      why,
      top_reason: null,
      recent: [],
      recent_of: 0,
    });
    expect([sample.wanted, sample.unwanted]).toEqual([23, 377]);
    expect(sample.rows.map(({ reason }) => reason)).toEqual(["currency"]);
  });
  it("says what it bid and won, and how little is known of the rest", () => {
    const holds = { made: 387, open: 0, settled: 26, released: 1, expired: 360, late: null };
    expect(soFar({ campaign: true, holds })).toBe("387 bids in this run, 26 of them won and billed (7 %).");
    expect(soFar({ campaign: false, holds: { ...holds, late: 13, open: 5 } })).toBe(
      "387 granted asks in this run, 39 of them settled (10 %), 5 still open.",
    );
    expect(soFar({ campaign: true, holds: { ...holds, made: 0, settled: 0 } })).toBe("No bids in this run.");
    expect(soFar({ campaign: false, holds: { ...holds, made: null } })).toBeNull();
    expect(keptFrom({ wanted: 0, unwanted: 9, rows: [] })).toContain("too little is known yet: 0 of 30");
    expect(keptFrom({ wanted: 30, unwanted: 0, rows: [] })).toMatch(/^Nothing kept it .* each of 30 sampled/);
  });
  it("a budget that does not bid wins nothing", () => {
    expect(reasonOf("lost", false)).not.toContain("bid");
    expect(reasonOf("lost", true)).toBe(sentence("lost"));
    expect(reasonOf("day_limit", false)).toBe(sentence("day_limit"));
  });
  it("an empty list says among how many", () => {
    expect(noneOf(0, false)).toBe("The node has refused no ask since it started.");
    expect(noneOf(1, false)).toBe("None among the last 1 refused ask of the node.");
    expect(noneOf(16_384, true)).toContain("16\u202f384 refused asks of the node. Bids");
  });
});

describe("cost sparkline", () => {
  it("the band lies around the last count, and everything inside the box", () => {
    const spark = sparkOf([110, 100], 20_000, 100, 48)!;
    expect(spark.points.map(({ x }) => x)).toEqual([0, 100]);
    expect(spark.points[0]!.y).toBeCloseTo(0);
    expect(spark.points[1]!.y).toBeCloseTo(40);
    expect([spark.band.top, spark.band.bottom].map(Math.round)).toEqual([32, 48]);
  });
  it("one count, none, and a count of nothing", () => {
    expect(sparkOf([5], 20_000, 100, 40)!.points).toEqual([{ x: 100, y: 20 }]);
    expect(sparkOf([], 20_000, 100, 40)).toBeNull();
    expect(sparkOf([0, 0], 20_000, 100, 40)!.points.map(({ y }) => y)).toEqual([20, 20]);
  });
  it("the change to the one before", () => {
    expect(lastChangePpm([100, 102])).toBe(20_000);
    expect([[], [1], [0, 1]].map(lastChangePpm)).toEqual([null, null, null]);
  });
});

describe("the room of a cell", () => {
  const spent = columnOf("spent")!;
  it("is digits that fit up to its other edge, and fewer letters", () => {
    expect(roomOf(spent, 110, 10)).toMatchObject({ digits: 10, isNarrow: true });
    expect(roomOf(spent, spent.width, 8).letters).toBeLessThan(roomOf(spent, spent.width, 8).digits);
    expect(roomOf(spent, spent.width, 8).isNarrow).toBe(false);
  });
  it("is endless where nothing is laid out", () => expect(roomOf(spent, 118, 0).letters).toBe(Infinity));
});

describe("the engine room", () => {
  const door = (door: string, verdict: string, per_s: number) => ({
    door,
    listen: "127.0.0.1:7700",
    verdicts: [{ verdict, per_s }],
    latency: { p50_us: 0, p90_us: 0, p99_us: 0, p999_us: 0, max_us: 0, buckets: [{ le_us: 5, count: 0 }] },
  });
  it("counts what is granted at all doors", () =>
    expect(
      grantedPerS([door("batch", "granted", 3), door("openrtb", "bid", 985), door("openrtb", "no_bid", 7)]),
    ).toBe(988));
  it("has no latency of a door that answered nothing", () => {
    const { latency } = door("batch", "granted", 0);
    expect([answeredLately(latency), quantile(latency, 0)]).toEqual([false, "–"]);
    expect(unmeasured(door("batch", "granted", 0))).toContain("Nothing was answered");
    expect(unmeasured(door("openrtb", "bid", 116)), "one turn in many is measured").toContain(
      "None of its answers",
    );
    expect(quantile({ ...latency, buckets: [{ le_us: 5, count: 1 }] }, 0)).toBe("0 µs");
  });
  it("says frame once", () =>
    expect(["frame_frame_too_large", "frame_unknown_message"].map(errorWords)).toEqual([
      "frame too large",
      "frame unknown message",
    ]));
});

describe("why so fast", () => {
  const told = (more: object) => whyFast({ ...answers.budget, status: "active", reason: null, ...more });
  it("asap follows no plan; ahead of a plan is told; who is on plan, behind or still is not", () => {
    expect(told({ pacing: "asap", index_ppm: null })).toContain("follows no plan");
    expect(told({ index_ppm: 1_060_000 })).toContain("ahead of its plan");
    expect(told({ index_ppm: 1_000_000 })).toBeNull();
    expect(told({ pacing: "asap", spend_minute: "0" })).toBeNull();
    expect(told({ pacing: "asap", status: "paused" })).toBeNull();
  });
});

describe("the cost sheet's balance", () => {
  const row = answers.costs.groups[0]!.rows[0]!;
  const fixed = {
    ...row,
    name: "slow loop of pacing",
    per: { unit: "second", count: 60 },
    per_request: { ns: 367_200_000, error_ns: 1 },
  };
  const sheet = (share: number | null, notes: string[] = []) => ({
    ...answers.costs,
    notes,
    totals: { ...answers.costs.totals, unaccounted_share: share },
  });
  it("is not told where rows and processor time are far apart, whatever the node says", () => {
    for (const share of [-3.35, -0.489, 0.11, -131, null])
      expect(noBalance(sheet(share)).share, `${share}`).toBeNull();
    for (const share of [-0.1, 0, 0.08]) expect(noBalance(sheet(share)).share).toBe(share);
    expect(noBalance(sheet(null, ["a", "NO BALANCE of bank: b"])).why).toEqual(["NO BALANCE of bank: b"]);
  });
  it("counts what passes whatever comes a second", () => {
    const groups = [{ ...answers.costs.groups[0]!, rows: [row, fixed, { ...fixed, depth: 1 }] }];
    expect(fixedNanos(groups)).toBe(367_200_000);
  });
});

describe("an undo of what is too new to have figures", () => {
  it("says that a budget ends all the same", () => {
    expect(undoUnknownWords(["end"])).toMatch(/^Ends what the record made.*not known/);
    expect(undoUnknownWords(["pause"])).toMatch(/^What it comes to in money is not known/);
  });
});

describe("windows", () => {
  const form = windowForm({
    windows: { minute: { limit: "10", kind: "bucket" }, month: "1000.00" },
  });
  it("are read in either form of the budgets file", () => {
    expect(windowForm({ windows: "month=1000.00; minute = 10b;" })).toEqual(form);
    expect(periodsOf(form)).toEqual(["minute", "hour", "week", "month"]);
    expect(windowForm({})).toMatchObject({ day: { limit: "", bucket: false } });
    expect(periodsOf(windowForm({ windows: { day: "5" } }))).toContain("day");
  });
  it("change all at once, and only where one differs", () => {
    const after = { ...form, hour: { limit: "50", bucket: false }, month: { limit: "1000", bucket: false } };
    expect(windowChange(form, { ...form }, "USD")).toBeUndefined();
    expect(windowChange(form, after, "USD")).toEqual({
      minute: { limit: "10", kind: "bucket" },
      hour: "50",
      month: "1000",
    });
    expect(windowChange(form, windowForm({}), "USD")).toBeNull();
    expect(windowChange(form, { ...form, week: { limit: "x", bucket: false } }, "USD")).toMatch(/week/);
  });
  it("are set and scaled in bulk by period", () => {
    expect(changesOf({ action: "scale", column: "hour", text: "50" }, ["USD", "EUR"])).toEqual({
      window_ppm: { hour: 500_000 },
    });
    expect(changesOf({ action: "set", column: "minute", text: "7.5" }, ["USD"])).toEqual({
      window: { minute: "7.5" },
    });
  });
  it("are columns of their own in a file", () => {
    const table = tableOf([
      { name: "a", handle: "t/a", windows: { minute: [8_200_000, 10_000_000, true], month: [1, 4] } },
      { name: "b", template: "{x}" },
    ]);
    const keys = ["name", "handle", "template", "tightest", "minute"];
    const text = Array.from(csvChunks(table, Uint32Array.of(0, 1), keys), (chunk) =>
      new TextDecoder().decode(chunk),
    ).join("");
    expect(text).toBe(
      "id,name,handle,template,tightest,tightest_used_part,minute_used,minute_limit,minute_kind,unit\r\n" +
        "100,a,t/a,,minute,0.820000,8.20,10.00,bucket,USD\r\n101,b,,{x},,,,,,USD\r\n",
    );
  });
});

describe("handles", () => {
  it.each(["team-42/gpt-5", "a", "9.", "x".repeat(128)])("%s is one", (text) =>
    expect(isHandle(text)).toBe(true),
  );
  it.each(["", "42", "a b", "ü", "x".repeat(129)])("%s is none", (text) =>
    expect(isHandle(text)).toBe(false),
  );
  it("go into the request of a new budget, or their fault is told", () => {
    const filled = { ...EMPTY_FORM, id: "17", name: "Spring", limit: "10", why: "a test" };
    expect(budgetOf({ ...filled, handle: " team/spring " })).toMatchObject({ handle: "team/spring" });
    expect(budgetOf(filled)).not.toHaveProperty("handle");
    expect(budgetOf({ ...filled, handle: "42" })).toBe(`A handle is ${HANDLE_WORDS}.`);
    expect(budgetOf({ ...filled, id: "4611686018427387904" })).toMatch(/templates/);
  });
});

describe("the hash of the sources", () => {
  it("is FNV-1a, as crates/weir/build.rs makes it", () => {
    expect(fnv(0xcbf29ce484222325n, Buffer.from("hello"))).toBe(0xa430d84680aabd0bn);
    expect(sourcesHash()).toMatch(/^[0-9a-f]{16}$/);
  });
});
