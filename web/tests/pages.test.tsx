// @vitest-environment happy-dom
// @vitest-environment-options { "url": "http://127.0.0.1/" }
// Every page over answers of the contract: that it draws them, and what it asks the node to do.
import { act } from "react";
import { type Root, createRoot } from "react-dom/client";
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { api, setToken } from "../src/api/client";
import type { BudgetsFile, Bulk } from "../src/api/types";
import { App } from "../src/app";
import { sentence } from "../src/live/codes";
import { Feed } from "../src/live/feed";
import type { Table } from "../src/live/table";
import * as answers from "./answers";
import { tableOf } from "./made";

// uPlot draws on a canvas, which this browser has none of.
vi.mock("../src/ui/plot", () => ({
  default: class {
    static paths = {};
    static tzDate = (date: Date) => date;
    destroy = () => undefined;
    setSize = () => undefined;
    setData = () => undefined;
  },
}));

/** A feed that has its table already. */
class StillFeed extends Feed {
  constructor(private readonly still: Table) {
    super("ws://127.0.0.1/v1/live", () => null);
    this.freshness.heard(answers.NOW_MS, Date.now());
    this.state = { ...this.state, connection: "live" };
  }

  override get table(): Table {
    return this.still;
  }
}

const ACTIVE = 150;
const rows = Array.from({ length: 300 }, (_, i) => ({
  name: `row ${i}`,
  status: i < ACTIVE ? 0 : 2,
  spent: i,
  limit: 1_000,
}));

interface Call {
  method: string;
  address: string;
  path: string;
  body: unknown;
  headers: Record<string, string>;
}

let calls: Call[];
let root: Root;

/** What the node answers; a test may put others in. */
let node: Record<string, (call: Call) => unknown>;

const plainNode = (): typeof node => ({
  "GET /me": () => ({ name: "local", role: "operate" }),
  "GET /budgets/117": () => answers.budget,
  "PATCH /budgets/117": () => answers.budget,
  "GET /budgets/117/history": () => answers.history,
  "GET /budgets/117/refusals": () => answers.refusals,
  "GET /audit": () => ({ records: [answers.record], next: null }),
  "GET /node": () => answers.node,
  "GET /fix/sessions": () => ({ sessions: answers.fixSessions, refused_logons: 3 }),
  "GET /fix/sessions/CLIENT1/messages": () => ({ messages: answers.fixMessages, next: null }),
  "POST /fix/sessions/CLIENT1/resend": () => answers.fixSessions[0],
  "PUT /fix/sessions/VENUE/sequence": () => answers.fixSessions[1],
  "GET /fix/orders": () => ({ orders: answers.fixOrders, next: null }),
  "GET /fix/kill": () => ({ kills: [answers.fixKill] }),
  "POST /fix/kill": () => ({ kills: [] }),
  "GET /budgets": () => Response.json({ budgets: answers.bound }),
  "GET /vault": () => answers.vault,
  // Its amounts are text to the page, too.
  "GET /report": () => Response.json(answers.report),
  "GET /costs": () => answers.costs,
  "GET /costs/history": () => answers.costHistory,
  "POST /bulk": ({ body }) => answers.bulk((body as Bulk).expected, (body as Bulk).dry_run),
  "POST /audit/8813/undo": ({ body }) =>
    answers.bulk(ACTIVE, (body as { dry_run?: boolean }).dry_run === true),
});

async function fetchFrom(
  address: string,
  {
    method = "GET",
    body,
    headers = {},
  }: { method?: string; body?: string; headers?: Record<string, string> },
): Promise<Response> {
  const path = new URL(address, "http://127.0.0.1").pathname.replace("/v1", "");
  const call = { method, address, path, body: body === undefined ? null : JSON.parse(body), headers };
  calls.push(call);
  const found = node[`${method} ${path}`];
  if (found === undefined)
    return Response.json(
      { type: "about:blank", title: "unknown", status: 404, detail: path },
      { status: 404 },
    );
  const answer = found(call);
  return answer instanceof Response
    ? answer
    : Response.json(answers.asAnswered(answer), { headers: { etag: '"8"' } });
}

async function settle(): Promise<void> {
  await act(async () => void (await new Promise((done) => setTimeout(done, 350))));
}

async function show(address: string, feed: Feed = new StillFeed(tableOf(rows))): Promise<void> {
  history.replaceState(null, "", address);
  act(() => root.render(<App key={address} feed={feed} />));
  await settle();
  await settle();
}

const text = () => document.body.textContent ?? "";
const expectWords = (...words: string[]) => words.forEach((word) => expect(text()).toContain(word));
const button = (name: string) =>
  [...document.querySelectorAll("button")].find((one) => one.textContent?.startsWith(name))!;
const submit = () => document.querySelector<HTMLButtonElement>('dialog button[type="submit"]')!;
const click = async (element: HTMLElement) => {
  act(() => element.click());
  await settle();
};
const type = async (label: string, value: string) => {
  const field = [...document.querySelectorAll("label")]
    .find((one) => one.textContent?.startsWith(label))!
    .querySelector("input")!;
  await act(async () => {
    Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value")!.set!.call(field, value);
    field.dispatchEvent(new Event("input", { bubbles: true }));
  });
  await settle();
};
const sent = (method: string, path: string) =>
  calls.filter((call) => call.method === method && call.path === path);

// Pages are loaded when they are first shown; how long that takes is the machine's, and no matter here.
beforeAll(async () => {
  await Promise.all([
    import("../src/campaign/CampaignPage"),
    import("../src/engine/EnginePage"),
    import("../src/costs/CostsPage"),
    import("../src/vault/VaultPage"),
    import("../src/audit/AuditPage"),
    import("../src/fix/FixPage"),
  ]);
}, 60_000);

beforeEach(() => {
  calls = [];
  node = plainNode();
  vi.stubGlobal("IS_REACT_ACT_ENVIRONMENT", true);
  vi.stubGlobal("fetch", fetchFrom);
  document.body.innerHTML = '<div id="root"></div>';
  root = createRoot(document.getElementById("root")!);
});

afterEach(() => {
  vi.useRealTimers();
  sessionStorage.clear();
  act(() => root.unmount());
  vi.unstubAllGlobals();
});

const refusedFile = (change: Partial<BudgetsFile>) => ({
  ...answers.node,
  budgets_file: {
    in_force: true,
    refused_ms: answers.NOW_MS,
    errors: ['budgets.jsonl:2: limit: found "much"', "budgets.jsonl:4: not JSON"],
    more_errors: 7,
    ...change,
  },
});
const fileBar = () => document.querySelector(".file-bar")?.textContent ?? null;

describe("a budgets file that is refused", () => {
  it("is told on every page, with the first line of why and its time", async () => {
    node["GET /node"] = () => refusedFile({});
    for (const place of [
      "/ui/",
      "/ui/campaigns/117",
      "/ui/engine",
      "/ui/costs",
      "/ui/audit",
      "/ui/nowhere",
    ]) {
      await show(place);
      expect(fileBar(), place).toContain("The budgets file was refused; the budgets before it stay.");
      expect(fileBar(), place).toContain('budgets.jsonl:2: limit: found "much"and 8 more');
      expect(fileBar(), place).toContain("21 Nov 15:00 UTC");
    }
  });

  it("is told as what it is where no budget is in force, and is gone once it is mended", async () => {
    vi.useFakeTimers({ shouldAdvanceTime: true });
    const poll = () => act(async () => void (await vi.advanceTimersByTimeAsync(6_000)));
    node["GET /node"] = () => refusedFile({ in_force: false });
    await show("/ui/");
    expect(fileBar()).toContain("No budget is in force: the budgets file was refused.");
    node["GET /node"] = () => refusedFile({ in_force: false, refused_ms: null, errors: [], more_errors: 0 });
    await poll();
    expect(fileBar()).toContain("No budget is in force: there is no budgets file.");
    node["GET /node"] = () => answers.node;
    await poll();
    expect(fileBar()).toBeNull();
  });

  it("is looked for again when a hidden page is shown", async () => {
    vi.useFakeTimers({ shouldAdvanceTime: true });
    const pass = (ms: number) => act(async () => void (await vi.advanceTimersByTimeAsync(ms)));
    await show("/ui/");
    const hidden = vi.spyOn(document, "hidden", "get").mockReturnValue(true);
    await pass(20_000);
    const asked = sent("GET", "/node").length;
    await pass(20_000);
    expect(sent("GET", "/node").length).toBe(asked);
    node["GET /node"] = () => refusedFile({});
    hidden.mockReturnValue(false);
    act(() => void document.dispatchEvent(new Event("visibilitychange")));
    await pass(300);
    expect(fileBar()).toContain("The budgets file was refused");
    hidden.mockRestore();
  });
});

describe("campaign", () => {
  it("figures, reasons, books, holds, configuration, changes", async () => {
    await show("/ui/campaign/117");
    expectWords(
      "Spring sale",
      "1\u202f250\u202f000",
      "3.20 USD per thousand",
      "Spent against plan",
      "its bid is below the floor",
      "What kept it from bidding",
      "settled above holds",
      "3 ×",
      "Configuration",
      "117 Shoes: limit 9\u202f000.00 USD → 10\u202f000.00 USD",
      "edited",
    );
    expect(document.title).toBe("Spring sale · Weir");
  });

  it("the forecast keeps to the daily limit and says nothing of minutes of data", async () => {
    await show("/ui/campaign/117");
    expectWords("A forecast needs 30 minutes of data; there are 2");
    const t_ms = Array.from({ length: 60 }, (_, i) => answers.NOW_MS - (60 - i) * 60_000);
    // Three dollars a minute: 3,242 of them would be gone in eighteen hours.
    const spent = t_ms.map((_, i) => `${(i + 1) * 3_000_000}`);
    node["GET /budgets/118"] = () => ({
      ...answers.budget,
      ...{ id: "118", available: "3242000000", daily: "164000000", day_spent: "20000000", end_ms: null },
      ...{ pacing: "asap", window_budget: null, window_planned: null, window_spent: "180000000" },
    });
    node["GET /budgets/118/history"] = () => ({
      ...answers.history,
      t_ms,
      spent,
      planned: t_ms.map(() => null),
    });
    await show("/ui/campaign/118");
    expect(text()).not.toContain("spent in 1");
    expectWords("164.00 USD today", "its limit is reached Thu 10 Dec 2026");
  });

  it("says that nothing is spent or asked yet in the place of empty charts, and nothing of its latency", async () => {
    const t_ms = Array.from({ length: 60 }, (_, i) => answers.NOW_MS - (60 - i) * 60_000);
    const nothing = t_ms.map(() => null);
    const empty = {
      t_ms,
      spent: nothing,
      planned: nothing,
      asks: nothing,
      grants: nothing,
      refusals: nothing,
    };
    node["GET /budgets/117/history"] = () => ({
      ...answers.history,
      ...empty,
      latency_p99_us: t_ms.map(() => 0),
    });
    await show("/ui/campaign/117");
    expectWords("No spend yet.", "No asks yet in this time.");
    expect(document.querySelectorAll("figure.chart")).toHaveLength(0);
    expect(text()).not.toContain("99 in 100");
    // One figure at the end of the window is a chart of it.
    const asks = [...nothing.slice(1), 7];
    node["GET /budgets/117/history"] = () => ({ ...answers.history, ...empty, asks, grants: asks });
    await show("/ui/campaign/118");
    await show("/ui/campaign/117");
    expect(document.querySelectorAll("figure.chart")).toHaveLength(1);
    await click(button("Table"));
    expect(document.querySelectorAll("figure.chart tbody tr")).toHaveLength(2);
  });

  it("a sample says its size, and what it does not want is no refusal", async () => {
    await show("/ui/campaign/117");
    expectWords("31 of 340 sampled", "60 of them it does not want", "400 of 409\u202f600 impressions");
    expect(text()).not.toContain("60 of 340");
  });

  it("shows what 23 impressions met as counts, says no share of them, and how to get more", async () => {
    const why = [
      { reason: "targeting", count: 377, estimate: 386_048 },
      { reason: "currency", count: 5, estimate: 5_120 },
    ];
    node["GET /budgets/117/refusals"] = () => ({ ...answers.refusals, why });
    await show("/ui/campaign/117");
    expectWords("too little is known yet: 23 of 30 impressions that it wants", "SURVEY_EVERY=1");
    // Beside the reason of its status, which is taken from its bids.
    expectWords("412 bids in this run, 88 of them won and billed (21 %), 14 still open.");
    expect(text()).not.toContain("5\u202f120");
    expectWords("5 of 23 sampled");
    expect(text()).not.toMatch(/more: [^.]* %/);
  });

  it("names the two largest reasons with their shares", async () => {
    const why = [
      { reason: "targeting", count: 300, estimate: 307_200 },
      { reason: "cap", count: 10, estimate: 10_240 },
      { reason: "floor", count: 31, estimate: 31_744 },
      { reason: "currency", count: 5, estimate: 5_120 },
    ];
    node["GET /budgets/117/refusals"] = () => ({ ...answers.refusals, why });
    await show("/ui/campaign/117");
    expectWords(
      `What kept it from bidding more: ${sentence("floor")} (31 %); ${sentence("cap")} (10 %), of 100 sampled impressions`,
    );
  });

  it("a reason and a row of the same code say the same", async () => {
    const why = [{ reason: "outbid", count: 90, estimate: 92_160 }];
    node["GET /budgets/117"] = () => ({ ...answers.budget, reason: "outbid" });
    node["GET /budgets/117/refusals"] = () => ({ ...answers.refusals, why });
    await show("/ui/campaign/117");
    expect(text().split("another campaign of this node goes before it").length - 1).toBeGreaterThan(2);
    expect(text()).not.toContain("others bid more");
  });

  it("asap has no pace, and says why it is so fast", async () => {
    const asap = {
      pacing: "asap",
      status: "active",
      reason: null,
      index_ppm: null,
      window_planned: null,
      window_budget: null,
    };
    node["GET /budgets/117"] = () => ({ ...answers.budget, ...asap });
    await show("/ui/campaign/117");
    expectWords(
      "asap follows no plan",
      "Why so fast: it follows no plan: asap lets everything through",
      "up to its daily limit",
    );
  });

  it("holds: open and expired beside the others, and whose latency it is", async () => {
    await show("/ui/campaign/117");
    const holds = [...document.querySelectorAll("dl.quantiles dt")].map(
      (term) => `${term.textContent} ${term.nextElementSibling?.textContent}`,
    );
    expect(holds).toEqual([
      "made 412",
      "open 14",
      "settled 88",
      "released –",
      "expired 310",
      "settled late –",
    ]);
    expectWords("the whole node answered 99 in 100 in 90 µs");
  });

  it("the last refusals by reason, with times, zone and the budget below", async () => {
    await show("/ui/campaign/117");
    await click(button("Last refusals"));
    expectWords("of the last 3", "the plan says not now", "Time, UTC", "15:00:00.000 UTC");
    const list = document.querySelector('[aria-label="Last refusals"]')!;
    expect(list.querySelectorAll("tbody tr")).toHaveLength(3);
    expect(list.querySelector('a[href$="/campaign/118"]')).not.toBeNull();
  });

  it("no refusals: among how many", async () => {
    node["GET /budgets/117/refusals"] = () => ({ ...answers.refusals, recent: [] });
    await show("/ui/campaign/117");
    await click(button("Last refusals"));
    expectWords("None among the last 16\u202f384 refused asks of the node", "counted, not listed");
  });

  it("changes a limit as decimal text, with the ETag of what was seen", async () => {
    await show("/ui/campaign/117");
    await click(button("Change limits"));
    await type("Limit,", "12 000.50");
    await type("Reason", "more room");
    await click(submit());
    const [patch] = sent("PATCH", "/budgets/117");
    expect(patch?.body).toEqual({ changes: { limit: "12000.5" }, why: "more room" });
    expect(patch?.headers["If-Match"]).toBe('"8"');
  });

  it("asks once more before a limit becomes more than a hundred times as large", async () => {
    await show("/ui/campaign/117");
    await click(button("Change limits"));
    await type("Limit,", "1000000.01");
    await type("Reason", "more room");
    expect(submit().disabled).toBe(true);
    expectWords(
      "It is more than 100 times as much",
      "the limit from 10\u202f000.00 USD to 1\u202f000\u202f000.01 USD",
    );
    await click(document.querySelector<HTMLElement>("input[type=checkbox]")!);
    // Another amount is another deed.
    await type("Limit,", "2000000");
    expect(submit().disabled).toBe(true);
    await click(document.querySelector<HTMLElement>("input[type=checkbox]")!);
    await click(submit());
    const [patch] = sent("PATCH", "/budgets/117");
    expect(patch?.body).toEqual({ changes: { limit: "2000000" }, why: "more room", confirm_large: true });
  });

  it("asks once more before a limit goes, and before a window's becomes more than a hundred times as large", async () => {
    const config = { ...answers.budget.config, windows: { minute: "5.00", month: "900.00" } };
    node["GET /budgets/117"] = () => ({ ...answers.budget, config });
    await show("/ui/campaign/117");
    await click(button("Change limits"));
    await type("In each month", "");
    await type("Reason", "no bound");
    expect(submit().disabled).toBe(true);
    expectWords("It takes a limit away: confirm it.", "I mean it: no limit per month any more");
    await type("In each minute", "500.01");
    expectWords(
      "It is more than 100 times as much",
      "the limit of a minute from 5.00 USD to 500.01 USD; no limit per month",
    );
    await click(document.querySelector<HTMLElement>("form input[type=checkbox]")!);
    await click(submit());
    const [patch] = sent("PATCH", "/budgets/117");
    expect(patch?.body).toEqual({
      changes: { windows: { minute: "500.01" } },
      why: "no bound",
      confirm_large: true,
    });
  });

  it("asks once more before the daily limit goes", async () => {
    await show("/ui/campaign/117");
    await click(button("Change limits"));
    await type("Daily limit", "");
    await type("Reason", "no bound");
    expectWords("I mean it: no limit per day any more");
    await click(document.querySelector<HTMLElement>("form input[type=checkbox]")!);
    await click(submit());
    expect(sent("PATCH", "/budgets/117")[0]?.body).toMatchObject({
      changes: { daily: null },
      confirm_large: true,
    });
  });

  it("tells what stands against a change", async () => {
    node["PATCH /budgets/117"] = () =>
      Response.json(
        { type: "x", title: "changed meanwhile", status: 412, detail: "it is at 9" },
        { status: 412, headers: { "content-type": "application/problem+json" } },
      );
    await show("/ui/campaign/117");
    await click(button("Pause…"));
    await type("Reason", "wrong creative");
    await click(submit());
    expectWords("changed meanwhile", "it is at 9");
  });

  it("says that there is none", async () => {
    await show("/ui/campaign/9");
    expectWords("There is no budget 9");
  });
});

describe("words", () => {
  it("the list is of budgets, and its switches say what they switch", async () => {
    await show("/ui/");
    const links = [...document.querySelectorAll('nav[aria-label="Pages"] a')].map((link) => link.textContent);
    expect(links).toEqual([
      "Budgets",
      "Reports",
      "Engine room",
      "Vault",
      "FIX sessions",
      "Orders",
      "Audit log",
    ]);
    expectWords("300 budgets");
    expect(document.title).toBe("Budgets · Weir");
    const switches = [...document.querySelectorAll(".toolbar .choice")].map((one) => one.textContent);
    expect(switches).toEqual(["OrderLiveSteadyFrozen", "TimesOwn zoneUTCMine", "RowsDenseRoomy"]);
    await click(button("New budget…"));
    expectWords("One that bids is a campaign");
  });

  it("CPU cost is behind the engine room", async () => {
    await show("/ui/engine");
    await click([...document.querySelectorAll("a")].find((link) => link.textContent === "CPU cost")!);
    expect(location.pathname).toBe("/ui/costs");
    expect(document.querySelector("nav [aria-current]")?.textContent).toBe("Engine room");
    expect(document.title).toBe("CPU cost · Weir");
  });

  it.each([
    [
      "meant",
      '{"hold":{"expected":{"win_rate":"0.2"}}}',
      "1",
      "0",
      "9",
      "plain",
      "That is meant.",
      "within its limit",
    ],
    [
      "above holds",
      '{"id":117}',
      "1",
      "0",
      "9",
      "plain",
      "Let whoever asks reserve the most",
      "within its limit",
    ],
    ["late", "", "0", "1", "0", "plain", "Longer holds", "within its limit"],
    ["too much", '{"id":117}', "1", "1", "-1", "warn", "Bills came above", "beyond its limit"],
  ])(
    "debt, %s: says why and what to do, and alarms beyond the limit",
    async (_, text, over, late, available, tone, ...words) => {
      const lines = { ...answers.budget.lines, over_settled: over, late };
      const file = { ...answers.budget.file!, text };
      node["GET /budgets/117"] = () => ({
        ...answers.budget,
        flags: ["open", "debt"],
        lines,
        file,
        available,
      });
      await show("/ui/campaign/117");
      const flag = document.querySelector<HTMLElement>(".flag")!;
      expect([flag.textContent, flag.dataset.tone]).toEqual(["debt", tone]);
      for (const word of words) expect(flag.title).toContain(word);
      expectWords(...words);
    },
  );
});

describe("other pages", () => {
  it("engine room: doors, cores, queues, the proof", async () => {
    await show("/ui/engine");
    expectWords(
      "Overspend proof",
      "sums hold",
      "Door batch",
      "notices waiting",
      "p99.9",
      "Workers",
      "too old",
    );
  });

  it("engine room: grants of all doors, a quiet door without latency, errors that were met, since when it watches", async () => {
    const quiet = { ...answers.node.doors[0]!.latency, p50_us: 0, buckets: [{ le_us: 5, count: 0 }] };
    const openrtb = {
      door: "openrtb",
      verdicts: [{ verdict: "bid", per_s: 985 }],
      latency: answers.node.doors[0]!.latency,
    };
    const batch = { ...answers.node.doors[0]!, verdicts: [], latency: quiet };
    const errors = [
      ...answers.node.errors,
      { code: "frame_frame_too_large", count: 0, doc: "/docs/formats.md" },
    ];
    node["GET /node"] = () => ({ ...answers.node, doors: [batch, openrtb], errors });
    await show("/ui/engine");
    expectWords(
      "985 granted or bid",
      "Nothing was answered in the last 10 s",
      "watches since 15:00:00 UTC",
      "1 kind that was not met",
    );
    expect(text()).not.toContain("frame frame");
    expect(text()).not.toContain("None.");
  });

  it("costs: no balance is said with its reason, fixed costs a second", async () => {
    const why = "NO BALANCE of bank: its rows come to 1229 us, the kernel counts 282 us";
    const row = {
      ...answers.costs.groups[0]!.rows[0]!,
      name: "slow loop of pacing",
      per: { unit: "second", count: 60 },
    };
    const groups = [{ ...answers.costs.groups[0]!, rows: [row] }];
    const totals = { ...answers.costs.totals, unaccounted_share: -3.35 };
    node["GET /costs"] = () => ({ ...answers.costs, groups, totals, notes: [why] });
    await show("/ui/costs");
    expectWords(why, "no balance", "A second, whatever comes", "20.0 ns /s", "fixed");
    expect(text()).not.toContain("335");
  });

  it("engine room: a violation is loud", async () => {
    node["GET /node"] = () => ({ ...answers.node, proof: { ...answers.node.proof, violations: 1 } });
    await show("/ui/engine");
    expectWords("1 violation");
  });

  it("FIX sessions: state, numbers, gaps, last messages, and what came and went", async () => {
    await show("/ui/fix");
    expectWords(
      "1 of 2none resends; 3 refused Logons since the start",
      "CLIENT1",
      "GATE → CLIENT1",
      "logged on",
      "1\u202f042",
      "977",
      "→ VENUE",
      "waiting",
      // The headline is a row's figure.
      "Latency412 µsmedian of CLIENT1, the slowest; p99 11.9 ms",
    );
    const rows = [...document.querySelectorAll('[aria-label^="Sessions"] tbody tr')].map(
      (row) => row.textContent,
    );
    expect(rows[0]).toContain("Resend…");
    expect(rows[0]).not.toContain("Reset…");
    expect(rows[1]).toContain("Set numbers…");
    expect(rows[1]).not.toContain("Log out…");
    await click(button("Messages"));
    expectWords("8=FIX.4.4 | 35=A | 554=***", "damaged: ff00", "← in", "→ out");
  });

  it("FIX sessions: what an operator does has its numbers and its reason", async () => {
    await show("/ui/fix");
    await click(button("Resend"));
    expect(submit().disabled).toBe(true);
    await type("From number", "970");
    await type("Reason", "a venue asks");
    await click(submit());
    const resent = { from: 970, to: 0, reason: "a venue asks" };
    expect(sent("POST", "/fix/sessions/CLIENT1/resend").map(({ body }) => body)).toEqual([resent]);
    await click(button("Set numbers"));
    await type("Next in", "0");
    await type("Reason", "as the venue says");
    expect(submit().disabled).toBe(true);
    await type("Next in", "20");
    await click(submit());
    const set = { next_out: 12, next_in: 20, reason: "as the venue says" };
    expect(sent("PUT", "/fix/sessions/VENUE/sequence").map(({ body }) => body)).toEqual([set]);
  });

  it("FIX sessions: none configured, and somebody who may only look", async () => {
    node["GET /fix/sessions"] = () => ({ sessions: [], refused_logons: 0 });
    await show("/ui/fix");
    expectWords("No FIX session is configured");
    act(() => root.unmount());
    root = createRoot(document.getElementById("root")!);
    node = { ...plainNode(), "GET /me": () => ({ name: "ann", role: "read" }) };
    await show("/ui/fix");
    expectWords("CLIENT1");
    expect(button("Resend")).toBeUndefined();
  });

  it("orders: the open ones, the budgets that bind them, refusals by reason, and whose are stopped", async () => {
    await show("/ui/orders");
    const table = (name: string) =>
      [...document.querySelectorAll(`[aria-label^="${name}"] tbody tr`)].map((row) =>
        [...row.children].map((cell) => cell.textContent).join("|"),
      );
    const thin = (text: string) => text.replaceAll("_", "\u202f");
    expect(table("Open orders")).toEqual(
      [
        "A17V9|CLIENT1→ VENUE|A1|ACME|sell short|10_000|10.505|40|9_960|open|" +
          "104_629.80 in 179_960 in 18446744073709551615|420.20 in 17– in 18446744073709551615",
        "B1no OrderID|CLIENT2→ VENUE|A1|ACME|–|–|–|40|9_960|replacing|–|–",
      ].map(thin),
    );
    expect(table("Limits")).toEqual(["Desk 17|USD|120_000.00|104_629.80|420.20|−1.50|"].map(thin));
    expect(document.querySelector('[role="img"]')?.getAttribute("aria-label")).toBe("87 % of the limit");
    expect(sent("GET", "/budgets").at(-1)?.address).toContain("filter=id:19,17,18446744073709551615");
    expect(table("Stopped")).toEqual([
      "firm ACME|a fat finger|ada|21 Nov 15:00:00 UTC▲ a restart does not know of it yet|CLIENT1|Let pass…",
    ]);
    expect(table("Refusals")).toEqual(["by venue|1_204", "value|2"].map(thin));
    expectWords("Refused1\u202f206", "2 of 3 that were read");
  });

  it("orders: those of a budget and a session, page after page until there are some that are open", async () => {
    const closed = { ...answers.fixOrder, state: "closed" };
    const pages: Record<string, object> = {
      "": { orders: [closed, closed], next: "7" },
      "7": { orders: [closed, { ...answers.fixOrder, session: "CLIENT2" }], next: "8" },
    };
    const asked = () =>
      sent("GET", "/fix/orders").map(({ address }) => new URL(address, "http://127.0.0.1").searchParams);
    node["GET /fix/orders"] = () =>
      pages[asked().at(-1)?.get("cursor") ?? ""] ?? { orders: [closed], next: "9" };
    await show("/ui/orders?budget=desk/a&session=CLIENT1");
    expect(asked().map((one) => one.get("cursor"))).toEqual([null, "7", "8", "9", "9"]);
    expect(asked().every((one) => one.get("budget") === "desk/a")).toBe(true);
    expectWords("0 of 7 that were read", "among those that were read; there are more");
    await click(button("More orders"));
    expect(asked()[5]?.get("cursor")).toBe("9");
    await type("Budget", " 17 ");
    await click(button("Show"));
    expect([location.search, asked().at(-1)?.get("budget")]).toEqual(["?budget=17&session=CLIENT1", "17"]);
    expect(button("First orders")).toBeUndefined();
  });

  it("orders: a kill is asked for twice, and what the node refuses is told in its own words", async () => {
    await show("/ui/orders");
    await click(button("Stop orders…"));
    await click(button("Account"));
    await type("Name", " A1 ");
    await type("Reason", "no");
    expect(submit().disabled).toBe(true);
    await type("Reason", "a fat finger");
    await click(submit());
    expect(sent("POST", "/fix/kill")).toEqual([]);
    expectWords("orders and replaces of the account A1 are refused");
    expect(document.activeElement?.textContent).toBe("Back");
    await click(submit());
    const kill = { scope: "account", name: "A1", reason: "a fat finger" };
    expect(sent("POST", "/fix/kill").map(({ body }) => body)).toEqual([kill]);
    expect(document.querySelector("dialog")).toBeNull();
    const detail = "the token of ada stopped them; another one is needed";
    node["DELETE /fix/kill"] = () => Response.json({ title: "forbidden", detail }, { status: 403 });
    await click(button("Let pass"));
    await type("Reason", "it is over");
    await click(submit());
    const enabled = { scope: "firm", name: "ACME", reason: "it is over" };
    expect(sent("DELETE", "/fix/kill").map(({ body }) => body)).toEqual([enabled]);
    expect(document.querySelector("dialog")?.textContent).toContain(detail);
  });

  it("orders: no door, no order, nothing stopped, and somebody who may only look", async () => {
    const failing = () => Response.json({ title: "forbidden", detail: "may read only" }, { status: 403 });
    const rows: [Record<string, () => unknown>, string[], boolean][] = [
      [{ "GET /fix/sessions": () => ({ sessions: [], refused_logons: 0 }) }, ["The FIX door is off"], false],
      [{ "GET /fix/orders": () => ({ orders: [], next: null }) }, ["No order is open."], true],
      [{ "GET /fix/kill": () => ({ kills: [] }) }, ["Stopped0", "Stopped ordersnone"], true],
      [
        { "GET /fix/orders": failing, "GET /me": () => ({ name: "ann", role: "read" }) },
        ["forbidden: may read only", "a fat finger", "by venue"],
        false,
      ],
    ];
    for (const [answered, words, may] of rows) {
      act(() => root.unmount());
      root = createRoot(document.getElementById("root")!);
      node = { ...plainNode(), ...answered };
      await show("/ui/orders");
      expectWords(...words);
      expect([words, button("Stop orders") !== undefined]).toEqual([words, may]);
    }
  });

  it("vault: sealed or not, keys with versions and messages, more of them", async () => {
    await show("/ui/vault");
    expectWords("✓ unsealed", "Calls per second", "orders", "aes256-gcm96", "3 of 3 kept", "every 30 d");
    expectWords("exportable", "may be deleted", "never");
    expect(document.title).toBe("Vault · Weir");
    expect(document.querySelector('[data-tone="bad"]')).not.toBeNull();
    await click(button("More keys"));
    expect(calls.some((call) => call.address.endsWith("/vault?after=tags"))).toBe(true);
    await click(button("First keys"));
    expect(button("First keys")).toBeUndefined();
  });

  it("vault: sealed, without keys, and off", async () => {
    const none = { ...answers.vault, count: 0, keys: [], next: null };
    const shows = async (vault: object) => {
      act(() => root.unmount());
      root = createRoot(document.getElementById("root")!);
      node["GET /vault"] = () => vault;
      await show("/ui/vault");
    };
    await shows({ ...none, sealed: true });
    expectWords("▲ sealed", "The keys are sealed", "weir vault unseal");
    await shows(none);
    expectWords("There are no keys yet");
    await shows({ ...none, listen: null });
    expectWords("The keys door is off");
    expect(text()).not.toContain("unsealed");
  });

  it("costs", async () => {
    await show("/ui/costs");
    expectWords(
      "purse reserve",
      "20.0 ns",
      "< 40.0 ns",
      "19 × ours",
      "8.0 %",
      "The money rule itself.",
      "a note",
    );
  });

  it("costs: from commit to commit, as small charts and as a table", async () => {
    await show("/ui/costs");
    expectWords("From commit to commit", "−1.1 %", "455");
    const drawn = [...document.querySelectorAll("svg.cost-spark")].map((svg) =>
      svg.getAttribute("aria-label"),
    );
    expect(drawn).toEqual(["decide: 2 counts, from 460 to 455", "settle: one count, 1\u202f389"]);
    await click(button("Table"));
    expectWords("a cheaper way", "2026-11-20");
    expect(document.querySelectorAll('[aria-label^="Accepted counts"] tbody tr')).toHaveLength(3);
  });

  it("costs: a program that has no past says so", async () => {
    node["GET /costs/history"] = () => ({ band_ppm: 20_000, workloads: [] });
    await show("/ui/costs");
    expectWords("not built from its repository");
  });

  it("engine: memory, the largest parts first", async () => {
    await show("/ui/engine");
    const card = [...document.querySelectorAll("section")].find((one) =>
      one.textContent?.startsWith("Memory"),
    );
    const rows = [...(card?.querySelectorAll("tr") ?? [])].map((row) => row.textContent);
    expect(rows).toEqual(["resident652 MB", "in use584 MB", "campaigns72.0 MB", "ledger54.0 MB"]);
  });

  it("an answer of another shape breaks its page, not the house", async () => {
    vi.spyOn(console, "error").mockImplementation(() => undefined);
    node["GET /costs"] = () => ({ rows: [] });
    await show("/ui/costs");
    expectWords("This page broke.", "Engine room");
  });

  it("reports are asked for as the address says, sorted, and kept as a link", async () => {
    await show("/ui/reports?by=campaign,place,day&days=30&budgets=117,%20acme/gpt-5");
    const query = () => new URL(sent("GET", "/report").at(-1)!.address, "http://127.0.0.1").searchParams;
    expect([query().get("by"), query().get("budgets")]).toEqual(["campaign,place,day", "117,acme/gpt-5"]);
    expect(Number(query().get("from_ms"))).toBeCloseTo(Date.now() - 30 * 86_400_000, -5);
    const first = () => [...document.querySelectorAll("tbody tr")].map((row) => row.children[1]?.textContent);
    expect(first()).toEqual(["", "late.example", "none", "news.example"]);
    await click(button("Spent"));
    expect(first()).toEqual(["", "news.example", "none", "late.example"]);
    expectWords("row 17", "1\u202f234.567891", "1.25 %", "complete from");
    await click(button("CPC"));
    expect(first()).toEqual(["", "late.example", "news.example", "none"]);
    await click(button("Campaign"));
    expect(query().get("by")).toBe("place,day");
    expect(location.search).toBe("?by=place,day&days=30&budgets=117%2C%20acme%2Fgpt-5");
    node["GET /report"] = () =>
      Response.json({ ...answers.report, rows: [], totals: [], kept_from_ms: null });
    await click(button("Hours"));
    expectWords("Nothing was booked", "No impression was counted yet");
  });

  it("a node that does not answer is told, with a way to try again", async () => {
    node["GET /node"] = () => Response.json({ title: "stopping", detail: "the node stops" }, { status: 503 });
    await show("/ui/engine");
    expectWords("stopping", "the node stops", "Try again");
  });

  it("the badge speaks of what the page asked for, not of a table that it does not show", async () => {
    const badge = () => document.querySelector<HTMLElement>(".freshness")!;
    const waiting = new Feed("ws://127.0.0.1/v1/live", () => null);
    for (const page of ["reports", "engine", "costs", "vault", "fix", "orders", "audit"]) {
      await show(`/ui/${page}`, waiting);
      expect([page, badge().dataset.fresh, badge().textContent]).toEqual([
        page,
        "fresh",
        expect.stringMatching(/^●read \d\.\d s agolive$/),
      ]);
    }
    await show("/ui/", waiting);
    expect([badge().dataset.fresh, badge().textContent]).toEqual(["none", "○connecting"]);
    node["GET /node"] = () => Response.json({ title: "stopping", detail: "the node stops" }, { status: 503 });
    await show("/ui/engine", waiting);
    expect([badge().dataset.fresh, badge().textContent]).toEqual(["stale", "▲refused"]);
  });

  it("asks for a token where one is needed", async () => {
    node["GET /me"] = () => Response.json({ title: "unauthorised" }, { status: 401 });
    await show("/ui/");
    expectWords("This node wants a token");
  });

  it("asks for a token again when the one it has is taken back", async () => {
    setToken("a-token-of-the-tests");
    await show("/ui/engine");
    expectWords("Overspend proof");
    node["GET /node"] = () => Response.json({ title: "unauthorised" }, { status: 401 });
    await act(async () => void (await api.node().catch(() => undefined)));
    expectWords("knows it no longer");
    expect(text()).not.toContain("Overspend proof");
  });

  it("says when there is no such page", async () => {
    await show("/ui/nowhere");
    expectWords("There is no such page");
  });
});

describe("from the list and back", () => {
  const cell = (row: number) =>
    document.querySelector<HTMLElement>(`[aria-rowindex="${row}"] [data-column="name"]`)!;
  const press = async (key: string) => {
    act(() => void document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true })));
    await settle();
  };
  beforeEach(() => {
    for (const id of [397, 398, 399]) {
      node[`GET /budgets/${id}`] = () => ({ ...answers.budget, id: String(id), name: `row ${id - 100}` });
      node[`GET /budgets/${id}/history`] = () => answers.history;
      node[`GET /budgets/${id}/refusals`] = () => answers.refusals;
    }
  });

  it("a name is a link; a plain click stays in the page, any other is the browser's", async () => {
    await show("/ui/?sort=-spent");
    const link = cell(2).querySelector("a")!;
    expect([link.getAttribute("href"), link.textContent]).toEqual(["/ui/campaign/399", "row 299"]);
    // After the page's own listeners; what is left to the browser, this one would follow in its only window.
    let taken: boolean | null = null;
    const after = (event: Event) => {
      taken = event.defaultPrevented;
      event.preventDefault();
    };
    document.addEventListener("click", after, { once: true });
    act(
      () =>
        void link.dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true, ctrlKey: true })),
    );
    expect([taken, location.pathname]).toEqual([false, "/ui/"]);
    await click(link);
    expect(location.pathname).toBe("/ui/campaign/399");
  });

  it("j and k lead through the list, and Back out of it in one step", async () => {
    await show("/ui/?sort=-spent");
    await click(cell(3).querySelector("a")!);
    await settle();
    expectWords("row 298", "2 of 300");
    const entries = history.length;
    await press("j");
    expect(location.pathname).toBe("/ui/campaign/397");
    await press("k");
    await press("k");
    expect(location.pathname).toBe("/ui/campaign/399");
    await press("k");
    expect([location.pathname, history.length]).toEqual(["/ui/campaign/399", entries]);
    expectWords("1 of 300");
  });

  it("a campaign that was opened from no list has no neighbours", async () => {
    await show("/ui/campaign/399");
    expect(document.querySelector('[aria-label="In the list"]')).toBeNull();
    await press("j");
    expect(location.pathname).toBe("/ui/campaign/399");
  });
});

describe("what was done to a FIX session", () => {
  it("is shown with its numbers, and is not taken back", async () => {
    const session = {
      name: "CLIENT1",
      before: { next_out: 7, next_in: 9 },
      after: { next_out: 1, next_in: 1 },
    };
    const asked = { name: "VENUE", before: { next_out: 7, next_in: 9 }, after: { from: 3, to: 0 } };
    const record = { ...answers.record, rows: 0, changes: [] };
    node["GET /audit"] = () => ({
      records: [
        { ...record, record: "2", action: "fix_reset", session },
        { ...record, record: "1", action: "fix_resend", session: asked },
      ],
      next: null,
    });
    await show("/ui/audit");
    expectWords("FIX CLIENT1", "fix_reset", "next_out 7 → 1, next_in 9 → 1", "FIX VENUE", "from 3, to 0");
    expect(document.body.textContent).not.toContain("Undo…");
  });

  it("shows what the budgets file changed, with seconds, name, currency and groups of digits", async () => {
    const [change] = answers.record.changes;
    const file = { added: 1_200, changed: 1, ended: 0 };
    node["GET /audit"] = () => ({
      records: [
        {
          ...answers.record,
          action: "file",
          who: "budgets file",
          rows: 1_201,
          file,
          changes: [
            {
              ...change,
              before: { limit: "10100.00", daily: null },
              after: { limit: "10100000000", daily: 5 },
            },
          ],
        },
      ],
      next: null,
    });
    await show("/ui/audit");
    expectWords(
      "21 Nov 15:00:00 UTC",
      "117 Shoes: limit 10\u202f100.00 USD → 10\u202f100\u202f000\u202f000 USD, daily none → 5 USD",
      "1 changed, 1\u202f200 added",
      "budgets file",
    );
    expect(document.body.textContent).not.toContain("Undo…");
  });
});

describe("large changes in the audit log", () => {
  it("are marked as what they are", async () => {
    const change = (before: Record<string, unknown>, after: Record<string, unknown>) => ({
      ...answers.record,
      rows: 1,
      changes: [{ ...answers.record.changes[0]!, large: true, before, after }],
    });
    node["GET /audit"] = () => ({
      records: [
        { ...change({ limit: "9.00" }, { limit: "1000.00" }), record: "1" },
        { ...change({ windows: { minute: "1", day: "9" } }, { windows: { minute: "2" } }), record: "2" },
      ],
      next: null,
    });
    await show("/ui/audit");
    const marks = [...document.querySelectorAll("tbody strong")].map((mark) => mark.textContent?.trim());
    expect(marks).toEqual(["over 100 times as much", "takes a limit away"]);
  });
});

describe("undo in the audit log", () => {
  const ended = {
    ...answers.bulk(1, true),
    effect: [
      {
        unit: "USD",
        rows: 1,
        limit_before: "9000000",
        limit_after: "0",
        available_before: "5000000",
        spend_minute: "0",
      },
    ],
    rows: [{ id: "17", result: "changed", before: { id: 17, limit: "9.00" }, after: {}, problem: null }],
  };
  beforeEach(() => {
    node["POST /audit/8812/undo"] = ({ body }) => ({
      ...ended,
      dry_run: (body as { dry_run?: boolean }).dry_run === true,
    });
    node["GET /audit"] = () => ({
      records: [{ ...answers.record, record: "8812", action: "create", rows: 1 }],
      next: null,
    });
  });

  it("says that a budget ends by it, and asks why", async () => {
    await show("/ui/audit");
    await click(button("Undo…"));
    await settle();
    expectWords("Ends what the record made", "5.00 USD stay unspent", "the id stays used");
    expect(submit().disabled).toBe(true);
    expect(sent("POST", "/audit/8812/undo")).toHaveLength(1);
    await type("Reason", "made twice");
    await click(submit());
    expect(sent("POST", "/audit/8812/undo").at(-1)?.body).toEqual({ why: "made twice" });
    expectWords("Undone for 1.");
  });

  it("tells that somebody else was quicker, and does nothing", async () => {
    node["POST /audit/8812/undo"] = () =>
      Response.json(
        { type: "x", title: "undone already", status: 409, detail: "by record 8814" },
        { status: 409, headers: { "content-type": "application/problem+json" } },
      );
    await show("/ui/audit");
    await click(button("Undo…"));
    await settle();
    await type("Reason", "made twice");
    expectWords("undone already", "by record 8814");
    expect(submit().disabled).toBe(true);
  });
});

describe("many at once", () => {
  it("pauses what a filter matches, with the number typed, and takes it back", async () => {
    await show("/ui/?f=status:active");
    await click(document.querySelector<HTMLElement>('[role="columnheader"].cell-tick')!);
    expectWords(`${ACTIVE} selected`);
    await click(button("Pause…"));
    expectWords(`${ACTIVE} will change`, "Stops about 0.31 USD a minute");
    await type("Reason", "wrong creative");
    expect(submit().disabled).toBe(true);
    await type("Type", String(ACTIVE));
    await click(submit());
    const [asked, done] = [
      sent("POST", "/bulk").find(({ body }) => (body as Bulk).dry_run),
      sent("POST", "/bulk").find(({ body }) => !(body as Bulk).dry_run),
    ];
    expect(asked?.headers["Idempotency-Key"]).toBeUndefined();
    expect(done?.headers["Idempotency-Key"]).toMatch(/^[A-Za-z0-9-]{8,64}$/);
    // A live filter is sent as the ids it showed: what was confirmed is what changes.
    expect(done?.body).toMatchObject({ action: "pause", expected: ACTIVE, why: "wrong creative" });
    expect((done?.body as Bulk).select.ids).toHaveLength(ACTIVE);
    expectWords(`${ACTIVE} changed`);
    // To take it back asks for as much as to do it.
    await click(button("Undo…"));
    await settle();
    expectWords(`Undo pause of ${ACTIVE} budgets`, `${ACTIVE} will be put back`);
    const undos = () => sent("POST", "/audit/8813/undo");
    expect(undos().map(({ body }) => body)).toEqual([{ why: "dry run", dry_run: true }]);
    expect(submit().disabled).toBe(true);
    await type("Reason", "it was right");
    expect(submit().disabled).toBe(true);
    await type("Type", String(ACTIVE));
    await click(submit());
    expect(undos().at(-1)?.body).toEqual({ why: "it was right" });
    expect(undos().at(-1)?.headers["Idempotency-Key"]).toMatch(/^[A-Za-z0-9-]{8,64}$/);
    expectWords(`Undone for ${ACTIVE}`);
  });

  it("sends a filter that stands still as it is", async () => {
    await show("/ui/?f=unit:USD&q=row");
    await click(document.querySelector<HTMLElement>('[role="columnheader"].cell-tick')!);
    await click(button("Change limits"));
    await type("Percent", "110");
    expect(sent("POST", "/bulk").at(-1)?.body).toMatchObject({
      action: "scale",
      changes: { limit_ppm: 1_100_000 },
      select: { filter: "unit:USD", q: "row", except: [] },
      expected: 300,
      dry_run: true,
    });
  });

  it("says that rows become more than a hundred times as large, and sends that it is meant", async () => {
    const refused = {
      id: "117",
      result: "refused",
      large: false,
      before: {},
      after: {},
      problem: { type: "x", title: "refused", status: 422, detail: 'limit: say "confirm_large": true' },
    };
    node["POST /bulk"] = ({ body }) => ({
      ...answers.bulk(300, true),
      rows: [
        (body as Bulk).confirm_large === true
          ? { ...refused, result: "changed", large: true, problem: null }
          : refused,
      ],
    });
    await show("/ui/?f=unit:USD&q=row");
    await click(document.querySelector<HTMLElement>('[role="columnheader"].cell-tick')!);
    await click(button("Change limits"));
    const how = [...document.querySelectorAll("select")].find((one) => one.value === "scale")!;
    await act(async () => {
      how.value = "set";
      how.dispatchEvent(new Event("change", { bubbles: true }));
    });
    await type("Amount", "5000000");
    await settle();
    expectWords("I mean it: 1 become more than 100 times as large");
    expect(sent("POST", "/bulk").at(-1)?.body).not.toHaveProperty("confirm_large");
    await click(document.querySelector<HTMLElement>("form input[type=checkbox]")!);
    await settle();
    expect(sent("POST", "/bulk").at(-1)?.body).toMatchObject({ confirm_large: true, dry_run: true });
  });

  it("a link that is not understood changes nothing and saves nothing until that is removed", async () => {
    await show("/ui/?f=status:active;foo:bar;pace:zz");
    expectWords("2 filters of this link are not understood");
    await click(document.querySelector<HTMLElement>('[role="columnheader"].cell-tick')!);
    expectWords(`${ACTIVE} selected`);
    expect([button("Pause…").disabled, button("Change limits").disabled, button("CSV").disabled]).toEqual([
      true,
      true,
      true,
    ]);
    await click(document.querySelector<HTMLElement>('[aria-label="remove what is not understood"]')!);
    expect(text()).not.toContain("not understood");
    expect(location.search).toBe("?f=status%3Aactive");
    expect([button("Pause…").disabled, button("CSV").disabled]).toEqual([false, false]);
  });

  it("who may only read cannot", async () => {
    node["GET /me"] = () => ({ name: "ann", role: "read" });
    await show("/ui/");
    await click(document.querySelector<HTMLElement>('[role="columnheader"].cell-tick')!);
    expect(button("Pause…").disabled).toBe(true);
    expect(button("New")).toBeUndefined();
  });
});
