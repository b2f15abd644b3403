// Answers of a node, of the types that the page expects, for tests of pages.
import type {
  AuditRecord,
  BoundBudget,
  Budget,
  BulkAnswer,
  CostHistory,
  Costs,
  FixKill,
  FixMessage,
  FixOrder,
  FixSession,
  History,
  Node,
  Refusals,
  Report,
  Vault,
} from "../src/api/types";
import { decimalText } from "../src/money/money";

const AMOUNTS =
  /^(limit|spent|planned|debt|held|available|used|left|daily|day_spent|spend_minute|cpm|window_(budget|planned|spent)|(limit|available)_(before|after))$/;

/** As a node writes it: the amounts of these answers, which are in base units as the page has them, as decimal text. */
export function asAnswered(answer: unknown): unknown {
  if (Array.isArray(answer)) return answer.map(asAnswered);
  if (answer === null || typeof answer !== "object") return answer;
  const { unit } = answer as { unit?: unknown };
  const decimal = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(decimal);
    return typeof value === "string" ? decimalText(BigInt(value), unit as string) : value;
  };
  const inside = (value: object) =>
    Object.fromEntries(Object.entries(value).map(([key, one]) => [key, decimalOr(key, one)]));
  const decimalOr = (key: string, value: unknown): unknown => {
    if (typeof unit !== "string") return asAnswered(value);
    if (key === "lines")
      return Object.fromEntries(Object.entries(value as object).map(([line, one]) => [line, decimal(one)]));
    if (key === "windows") return (value as object[]).map(inside);
    return AMOUNTS.test(key) ? decimal(value) : value;
  };
  return inside(answer);
}

export const NOW_MS = Date.UTC(2026, 10, 21, 15);

export const budget: Budget = {
  id: "117",
  name: "Spring sale",
  handle: "shop/spring-sale",
  template: null,
  unit: "USD",
  campaign: true,
  status: "limited",
  reason: "floor",
  since_ms: NOW_MS - 3_600_000,
  limit: "10000000000",
  spent: "4000000000",
  debt: "0",
  held: "1000000",
  available: "5999000000",
  window_start_ms: NOW_MS - 15 * 3_600_000,
  window_end_ms: NOW_MS + 9 * 3_600_000,
  window_budget: "400000000",
  window_planned: "250000000",
  window_spent: "200000000",
  index_ppm: 800_000,
  daily: "400000000",
  day_spent: "200000000",
  day_ends_ms: NOW_MS + 9 * 3_600_000,
  spend_minute: "310000",
  impressions: 1_250_000,
  cpm: "3200000",
  tz: "UTC",
  start_ms: null,
  end_ms: NOW_MS + 10 * 86_400_000,
  pacing: "curve",
  parent: null,
  flags: ["open", "edited"],
  config: { id: 117, name: "Spring sale", limit: "10000.00", daily: "400.00" },
  file: {
    line: 17,
    text: '{"id":117,"name":"Spring sale","limit":"9000.00","daily":"400.00","bid":"2.50","targeting":{"countries":["DEU","AUT"]},"creatives":[{"id":"c1","format":"banner","markup":"<img src=x onerror=alert(1)>"}]}',
    problem: null,
    changed: [{ field: "limit", in_file: "9000.00", in_force: "10000.00" }],
  },
  lines: {
    free: "5990000000",
    purses: "9000000",
    held: "1000000",
    suspended: "0",
    expired: "0",
    settled: "4000000000",
    over_settled: "0",
    late: "0",
    inferred: "0",
    unknown_order: "0",
  },
  holds: { made: 412, open: 14, settled: 88, released: null, expired: 310, late: null },
  caps: [{ max: 3, per: "1d", of: "campaign" }],
  windows: [],
};

const minutes = [0, 1, 2].map((i) => NOW_MS - (3 - i) * 60_000);
export const history: History = {
  step_ms: 60_000,
  from_ms: minutes[0]!,
  kept_from_ms: 0,
  unit: "USD",
  t_ms: minutes,
  spent: ["199000000", null, "200000000"],
  planned: ["248000000", null, "250000000"],
  asks: [600, null, 620],
  grants: [60, null, 61],
  wins: [6, null, 7],
  refusals: [540, null, 559],
  latency_p99_us: [80, null, 90],
};

export const refusals: Refusals = {
  verdicts: [{ verdict: "paced", count: 8120 }],
  survey_every: 1024,
  auctioned: 409_600,
  surveyed: 400,
  why: [
    { reason: "targeting", count: 60, estimate: 61_440 },
    { reason: "floor", count: 31, estimate: 31_744 },
  ],
  top_reason: "floor",
  recent: [
    { at_ms: NOW_MS, verdict: "paced", budget: "117" },
    { at_ms: NOW_MS - 5, verdict: "purse_empty", budget: "118" },
    { at_ms: NOW_MS - 9, verdict: "paced", budget: "117" },
  ],
  recent_of: 16_384,
};

export const record: AuditRecord = {
  record: "8812",
  at_ms: NOW_MS,
  who: "ann",
  action: "set",
  why: "more room",
  rows: 2,
  undone_by: null,
  undo_of: null,
  session: null,
  file: null,
  changes: [
    {
      id: "117",
      name: "Shoes",
      unit: "USD",
      large: false,
      before: { limit: "9000.00" },
      after: { limit: "10000.00" },
    },
  ],
};

export const bulk = (changed: number, dryRun: boolean): BulkAnswer => ({
  record: dryRun ? null : "8813",
  dry_run: dryRun,
  matched: changed,
  changed,
  unchanged: 0,
  refused: 0,
  undo_until_ms: NOW_MS + 30_000,
  effect: [
    {
      unit: "USD",
      rows: changed,
      limit_before: "12000000",
      limit_after: "12000000",
      available_before: "7000000",
      spend_minute: "310000",
    },
  ],
  rows: [],
});

export const node: Node = {
  as_of_ms: NOW_MS,
  node: 1,
  run: 3,
  version: "0.3.0",
  connections: { open: 49, accepted: 60, refused_full: 0 },
  uptime_ms: 60_000,
  workers: [{ core: 0, busy_ppm: 610_000, idle_ppm: 310_000, wait_ppm: 80_000, decisions_per_s: 512_000 }],
  doors: [
    {
      door: "batch",
      listen: "127.0.0.1:7700",
      verdicts: [{ verdict: "granted", per_s: 391_000 }],
      latency: {
        p50_us: 14,
        p90_us: 41,
        p99_us: 118,
        p999_us: 420,
        max_us: 2_100,
        buckets: [
          { le_us: 20, count: 9 },
          { le_us: null, count: 1 },
        ],
      },
    },
  ],
  queues: [{ queue: "notices_waiting", depth: 14_200, max: 16_384 }],
  journal: {
    state: "sealing",
    failure: null,
    seal_us: { p50: 210, p99: 890, max: 4_100 },
    lag_ms: 1,
    unsealed_bytes: 0,
    bytes: 9_812,
  },
  budgets_file: { in_force: true, refused_ms: null, errors: [], more_errors: 0 },
  grants: { open: 812, max: 4_000_000 },
  proof: { checked_ms: NOW_MS - 800, budgets: 300, violations: 0, held_and_spent_ok: true, debts: 2 },
  errors: [{ code: "too_old", count: 3, doc: "/docs/watching.md" }],
  counters: [
    { counter: "memory.resident", of: null, unit: "bytes", count: 652_000_000 },
    { counter: "memory.in_use", of: null, unit: "bytes", count: 584_000_000 },
    { counter: "memory.parts", of: "ledger", unit: "bytes", count: 54_000_000 },
    { counter: "memory.parts", of: "campaigns", unit: "bytes", count: 72_000_000 },
    { counter: "doors.batch.decisions", of: null, unit: "", count: 7 },
    { counter: "doors.fix.refused_logons", of: null, unit: "", count: 9 },
    { counter: "doors.fix.refused_limit", of: null, unit: "", count: 0 },
    { counter: "doors.fix.refused_value", of: null, unit: "", count: 2 },
    { counter: "doors.fix.refused_by_venue", of: null, unit: "", count: 1_204 },
    { counter: "doors.fix.cancels", of: null, unit: "", count: 5 },
  ],
};

const accepted = (instructions: number, date: string) => ({
  date,
  on_top_of: "7386655",
  reason: "a cheaper way",
  rustc: "1.95.0",
  instructions,
});
export const costHistory: CostHistory = {
  band_ppm: 20_000,
  workloads: [
    { workload: "decide", points: [accepted(460, "2026-11-20"), accepted(455, "2026-11-22")] },
    { workload: "settle", points: [accepted(1_389, "2026-11-22")] },
  ],
};

const totals = { cpu_ns_per_request: 327, recorded_ns_per_request: 300, unaccounted_share: 0.08 };
export const costs: Costs = {
  title: "Cost sheet",
  machine: "made up",
  date: "2026-11-21T15:00:00Z",
  seconds: 60,
  requests: { unit: "request", count: 1_000 },
  totals,
  notes: ["a note"],
  groups: [
    {
      name: "worker",
      totals,
      rows: [
        {
          name: "purse reserve",
          place: "crates/ledger",
          depth: 0,
          per: { unit: "ask", count: 1_000 },
          mean: { ns: 21.6, error_ns: 1 },
          p50: null,
          p99: { below_ns: 40 },
          per_request: { ns: 20, error_ns: 1 },
          cores: null,
          instructions: 65,
          alternative: {
            name: "a mutex",
            ns: 78,
            ours_ns: 4,
            ratio: 19.1,
            ratio_low: 18,
            ratio_high: 20,
            measured: "somewhere",
          },
          saving_ns_per_request: 70,
          justification: "The money rule itself.",
          flags: [],
        },
      ],
    },
  ],
};

const fixSession: FixSession = {
  name: "CLIENT1",
  kind: "client",
  begin_string: "FIX.4.4",
  sender_comp_id: "GATE",
  target_comp_id: "CLIENT1",
  state: "logged_on",
  next_out: 1_042,
  next_in: 977,
  address: "203.0.113.7:41234",
  last_in_ms: NOW_MS - 2_000,
  last_out_ms: NOW_MS - 1_000,
  route: "VENUE",
  durability: "sealed",
  gaps: 1,
  messages_in: 976,
  messages_out: 1_041,
  latency_p50_us: 412,
  latency_p99_us: 11_900,
};

export const fixSessions: FixSession[] = [
  fixSession,
  {
    ...fixSession,
    name: "VENUE",
    kind: "venue",
    target_comp_id: "VENUE",
    state: "waiting",
    address: null,
    route: null,
    next_out: 12,
    next_in: 15,
    last_in_ms: null,
    last_out_ms: null,
    gaps: 0,
  },
];

export const fixMessages: FixMessage[] = [
  { at_us: NOW_MS * 1_000, direction: "in", message: "8=FIX.4.4\u000135=A\u0001554=***\u0001", hex: null },
  { at_us: NOW_MS * 1_000 + 5, direction: "out", message: null, hex: "ff00" },
];

export const fixOrder: FixOrder = {
  session: "CLIENT1",
  venue: "VENUE",
  cl_ord_id: "A17",
  order_id: "V9",
  account: "A1",
  symbol: "ACME",
  side: "5",
  quantity: "10000",
  price: "10.505",
  cum: "40",
  leaves: "9960",
  state: "open",
  hold: { "17": "104629.80", "18446744073709551615": "9960" },
  booked: { "17": "420.20", "18446744073709551615": null },
};
const other: FixOrder = {
  ...fixOrder,
  session: "CLIENT2",
  hold: null,
  booked: null,
  order_id: null,
  side: null,
};
export const fixOrders: FixOrder[] = [
  { ...fixOrder, state: "closed", cl_ord_id: "gone", hold: { "19": "0.00" } },
  fixOrder,
  { ...other, cl_ord_id: "B1", quantity: null, price: null, state: "replacing" },
];

export const bound: BoundBudget[] = [
  {
    ...budget,
    id: "17",
    name: "Desk",
    limit: "120000.00",
    held: "104629.80",
    spent: "420.20",
    available: "-1.50",
  },
];

export const fixKill: FixKill = {
  scope: "firm",
  name: "ACME",
  reason: "a fat finger",
  who: "ada",
  at_ms: NOW_MS,
  sealed: false,
  sessions: ["CLIENT1"],
};

const counts = { unit: "USD", impressions: 1_600, clicks: 20, spent: "3.20", ctr: "0.012500", cpm: "2.00" };
export const report: Report = {
  as_of_ms: NOW_MS,
  from_ms: null,
  to_ms: NOW_MS + 1,
  kept_from_ms: NOW_MS - 3_600_000,
  rows: [
    { campaign: "117", place: "late.example", day: "2026-11-28", ...counts, spent: "0.10", cpc: "0.90" },
    { campaign: "117", place: "", day: "2026-11-28", ...counts, clicks: 0, spent: "1.50", cpc: null },
    {
      campaign: "118",
      place: "news.example",
      day: "2026-11-28",
      ...counts,
      spent: "1234.567891",
      cpc: "0.16",
    },
  ],
  totals: [{ ...counts, spent: "1236.167891", cpc: "0.16" }],
};

export const vault: Vault = {
  listen: "127.0.0.1:7703",
  sealed: false,
  count: 103,
  calls: 1_000,
  items: 50_000,
  items_failed: 3,
  denied: 2,
  keys: [
    {
      name: "orders",
      type: "aes256-gcm96",
      latest_version: 3,
      versions: 3,
      min_decryption_version: 2,
      rotated_ms: NOW_MS,
      rotates_every_s: 30 * 86_400,
      messages: 4_000_000_000,
      messages_max: 4_294_967_296,
      exportable: true,
      deletion_allowed: false,
      soft_deleted: false,
    },
    {
      name: "tags",
      type: "hmac",
      latest_version: 1,
      versions: 1,
      min_decryption_version: 1,
      rotated_ms: NOW_MS,
      rotates_every_s: null,
      messages: null,
      messages_max: null,
      exportable: false,
      deletion_allowed: true,
      soft_deleted: true,
    },
  ],
  next: "tags",
};
