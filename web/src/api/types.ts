// Answers and requests of docs/api.md, section 3. Amounts and ids are text; those of
// answers are base units here, see amounts.ts, those of changes decimal.

import type { PERIODS } from "../live/codes";

export type Role = "read" | "operate";
export interface Me {
  name: string;
  role: Role;
}

export interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
  field?: string | null;
  found?: string | null;
  expected?: string | null;
}

export interface Budget {
  id: string;
  name: string;
  handle: string | null;
  /** The pattern of the template that it was made from. */
  template: string | null;
  unit: string;
  /** It bids. */
  campaign: boolean;
  status: string;
  reason: string | null;
  since_ms: number;
  limit: string;
  spent: string;
  debt: string;
  held: string;
  available: string;
  window_start_ms: number | null;
  window_end_ms: number | null;
  window_budget: string | null;
  window_planned: string | null;
  window_spent: string | null;
  index_ppm: number | null;
  daily: string | null;
  day_spent: string;
  day_ends_ms: number | null;
  spend_minute: string;
  /** Null where nothing bids. */
  impressions: number | null;
  cpm: string | null;
  tz: string;
  start_ms: number | null;
  end_ms: number | null;
  pacing: string;
  parent: string | null;
  flags: string[];
  /** Its configuration, as in the budgets file. */
  config: Record<string, unknown>;
  /** Its line of the budgets file, where one has it as text. */
  file: FileLine | null;
  lines: Record<Line, string>;
  /** Counts since the start of the run; null where nobody counts it. */
  holds: Record<HoldCount, number | null>;
  caps: { per: string; max: number; of: string }[];
  windows: { period: string; bucket: boolean; limit: string; used: string; left: string; ends_ms: number }[];
}

export interface FileLine {
  line: number;
  /** Null where it cannot be shown: `problem` says why. */
  text: string | null;
  problem: string | null;
  /** Changed by the API on top of it; null: nothing, or taken away. */
  changed: { field: string; in_file: unknown; in_force: unknown }[];
}

export type Line =
  | "free"
  | "purses"
  | "held"
  | "suspended"
  | "expired"
  | "settled"
  | "over_settled"
  | "late"
  | "inferred"
  | "unknown_order";
export type HoldCount = "made" | "open" | "settled" | "released" | "expired" | "late";

/** Fields as in the budgets file. */
export interface NewBudget {
  id: string;
  name: string;
  handle?: string;
  unit: string;
  limit: string;
  daily?: string;
  start?: string;
  end?: string;
  tz?: string;
  pacing?: string;
  parent?: string;
}

export interface History {
  step_ms: number;
  from_ms: number;
  kept_from_ms: number;
  unit: string;
  t_ms: number[];
  spent: (string | null)[];
  planned: (string | null)[];
  asks: (number | null)[];
  grants: (number | null)[];
  wins: (number | null)[];
  refusals: (number | null)[];
  latency_p99_us: (number | null)[];
}

export interface Refusals {
  /** Counts since the start of the run, most first. */
  verdicts: { verdict: string; count: number }[];
  /** One impression in so many is surveyed for `why`; 0: none. */
  survey_every: number;
  /** Impressions since the campaigns last changed, of which `surveyed` were. */
  auctioned: number;
  surveyed: number;
  /** Sampled, most first; `estimate`: about how often in all, since the campaigns last changed. */
  why: { reason: string; count: number; estimate: number }[];
  /** The first of `why` that is a refusal. */
  top_reason: string | null;
  /** The last 100 asks of this budget, or of one under it, that got nothing, newest first... */
  recent: RecentRefusal[];
  /** ...among so many that the node remembers, of all budgets. */
  recent_of: number;
}

export interface RecentRefusal {
  at_ms: number;
  verdict: string;
  budget: string;
}

export type Period = (typeof PERIODS)[number];
/** A limit of a fixed window, or a limit with its kind. */
export type WindowLimit = string | { limit: string; kind: "fixed" | "bucket" };
export type WindowLimits = Partial<Record<Period, WindowLimit>>;

export type Changes = Partial<Record<"limit" | "daily" | "status", string | null>> &
  Partial<Record<"limit_ppm" | "daily_ppm", number>> & {
    /** Of one budget, in place of all that it had. */
    windows?: WindowLimits | null;
    /** In bulk: these windows and no others. */
    window?: Partial<Record<Period, string>>;
    window_ppm?: Partial<Record<Period, number>>;
  };
export type Action = "pause" | "resume" | "set" | "scale";

export interface Select {
  ids?: string[];
  filter?: string;
  q?: string;
  except?: string[];
}

export interface Bulk {
  action: Action;
  changes?: Changes;
  select: Select;
  expected: number;
  dry_run: boolean;
  /** Limits may become more than a hundred times as large, or go. */
  confirm_large?: true;
  why: string;
}

export interface BulkRow {
  id: string;
  result: "changed" | "unchanged" | "refused";
  /** A limit becomes more than a hundred times as large, or goes. */
  large: boolean;
  before: Record<string, unknown>;
  after: Record<string, unknown>;
  problem: Problem | null;
}

export interface Effect {
  unit: string;
  rows: number;
  limit_before: string;
  limit_after: string;
  available_before: string;
  spend_minute: string;
}

export interface BulkAnswer {
  /** Null where nothing changed, or in a dry run. */
  record: string | null;
  dry_run: boolean;
  matched: number;
  changed: number;
  unchanged: number;
  refused: number;
  undo_until_ms: number;
  effect: Effect[];
  rows: BulkRow[];
}

export interface AuditRecord {
  record: string;
  at_ms: number;
  who: string;
  action:
    | "create"
    | "set"
    | "pause"
    | "resume"
    | "undo"
    | "fix_sequence"
    | "fix_reset"
    | "fix_resend"
    | "fix_logout"
    | "fix_kill"
    | "fix_enable"
    | "file";
  why: string;
  rows: number;
  undone_by: string | null;
  undo_of: string | null;
  /** In a list at most 20. */
  changes: AuditRow[];
  /** The FIX session that it is about, in place of budgets. */
  session: { name: string; before: Record<string, unknown>; after: Record<string, unknown> } | null;
  /** How many budgets a load of the budgets file changed; it has the first 100 of them. */
  file: { added: number; changed: number; ended: number } | null;
}

/** What became of one budget. */
export interface AuditRow {
  id: string;
  /** Now; null: there is no such budget any more. */
  name: string | null;
  unit: string | null;
  /** A limit became more than a hundred times as large, or went. */
  large: boolean;
  before: Record<string, unknown>;
  after: Record<string, unknown>;
}

export interface Latency {
  p50_us: number;
  p90_us: number;
  p99_us: number;
  p999_us: number;
  max_us: number;
  buckets: { le_us: number | null; count: number }[];
}

export interface Door {
  door: string;
  /** Where it listens; null for a door that is off. */
  listen: string | null;
  verdicts: { verdict: string; per_s: number }[];
  latency: Latency;
}

export interface BudgetsFile {
  /** A set of budgets was taken in this run. */
  in_force: boolean;
  /** When the file was refused that nobody has mended since. */
  refused_ms: number | null;
  /** The first lines of why... */
  errors: string[];
  /** ...and how many more there are. */
  more_errors: number;
}

export interface Node {
  as_of_ms: number;
  node: number;
  run: number;
  version: string;
  connections: { open: number; accepted: number; refused_full: number };
  uptime_ms: number;
  workers: { core: number; busy_ppm: number; idle_ppm: number; wait_ppm: number; decisions_per_s: number }[];
  doors: Door[];
  queues: { queue: string; depth: number; max: number }[];
  journal: {
    state: string;
    failure: string | null;
    seal_us: { p50: number; p99: number; max: number };
    lag_ms: number;
    unsealed_bytes: number;
    bytes: number;
  };
  budgets_file: BudgetsFile;
  grants: { open: number; max: number };
  proof: {
    checked_ms: number;
    budgets: number;
    violations: number;
    held_and_spent_ok: boolean;
    debts: number;
  };
  errors: { code: string; count: number; doc: string }[];
  /** Every counter; `of`: which of several numbers it is. */
  counters: { counter: string; of: string | null; unit: string; count: number }[];
}

/** A reading in nanoseconds, or what it is below where the timer cannot tell it from nothing. */
export type Nanos = { ns: number; error_ns: number } | { below_ns: number } | null;

export interface CostRow {
  name: string;
  place: string;
  /** 0 counts in the totals; more is part of the next row above of a lower depth. */
  depth: number;
  per: { unit: string; count: number };
  mean: Nanos;
  p50: Nanos;
  p99: Nanos;
  per_request: Nanos;
  cores: number | null;
  instructions: number | null;
  /** `ratio`: its time over ours, measured side by side on the same work. */
  alternative: {
    name: string;
    ns: number;
    ours_ns: number;
    ratio: number;
    ratio_low: number;
    ratio_high: number;
    measured: string;
  } | null;
  saving_ns_per_request: number | null;
  justification: string | null;
  flags: string[];
}

export interface CostTotals {
  cpu_ns_per_request: number | null;
  recorded_ns_per_request: number | null;
  unaccounted_share: number | null;
}

/** Instructions of an operation each time that a count was accepted, oldest first. */
export interface CostPoint {
  date: string;
  on_top_of: string;
  reason: string;
  rustc: string;
  instructions: number;
}

export interface CostHistory {
  /** So far above the last accepted count nobody may go without a reason. */
  band_ppm: number;
  workloads: { workload: string; points: CostPoint[] }[];
}

/** A key of the vault. */
export interface VaultKey {
  name: string;
  type: string;
  latest_version: number;
  /** How many are kept. */
  versions: number;
  min_decryption_version: number;
  /** When the latest version was made. */
  rotated_ms: number;
  rotates_every_s: number | null;
  /** That the latest version sealed; null of a key that seals none. */
  messages: number | null;
  messages_max: number | null;
  exportable: boolean;
  deletion_allowed: boolean;
  /** It is out of use until it is taken back. */
  soft_deleted: boolean;
}

/** The vault, with a page of its keys. */
export interface Vault {
  /** Where the keys door listens; null where it is off. */
  listen: string | null;
  sealed: boolean;
  count: number;
  calls: number;
  items: number;
  items_failed: number;
  denied: number;
  keys: VaultKey[];
  next: string | null;
}

/** What was counted, in one unit. Amounts are decimal text. */
export interface ReportCounts {
  unit: string;
  impressions: number;
  clicks: number;
  spent: string;
  /** Null without a divisor, as all that follows. */
  ctr: string | null;
  cpm: string | null;
  cpc: string | null;
}

/** What was not asked for is not in it. */
export interface ReportRow extends ReportCounts {
  campaign?: string;
  exchange?: string;
  place?: string;
  creative?: string;
  country?: string;
  hour?: string;
  day?: string;
}

export interface Report {
  as_of_ms: number;
  from_ms: number | null;
  to_ms: number;
  /** Hours from then on are complete; null: nothing was counted yet. */
  kept_from_ms: number | null;
  rows: ReportRow[];
  totals: ReportCounts[];
}

/** The cost sheet, as `weir costs --json` prints it. */
export interface Costs {
  title: string;
  machine: string;
  date: string;
  seconds: number;
  requests: { unit: string; count: number };
  groups: { name: string; rows: CostRow[]; totals: CostTotals }[];
  totals: CostTotals;
  notes: string[];
}

export type FixState =
  "waiting" | "logging_on" | "logged_on" | "resending" | "logging_out" | "out_of_schedule";

/** A FIX session; counts and times are of this run of the node. */
export interface FixSession {
  name: string;
  /** Who opens the connection: a client does, to a venue the node does. */
  kind: "client" | "venue";
  begin_string: string;
  sender_comp_id: string;
  target_comp_id: string;
  state: FixState;
  next_out: number;
  next_in: number;
  address: string | null;
  last_in_ms: number | null;
  last_out_ms: number | null;
  /** Of a client: `echo`, or the name of its venue. */
  route: string | null;
  durability: "written" | "sealed";
  gaps: number;
  messages_in: number;
  messages_out: number;
  /** How long what came lately stayed in the gate; null before anything came. */
  latency_p50_us: number | null;
  latency_p99_us: number | null;
}

export interface FixSessions {
  sessions: FixSession[];
  /** Connections that showed no Logon of a session that they may have. */
  refused_logons: number;
}

/** A message as it is kept: with `***` in place of passwords. */
export interface FixMessage {
  /** Microseconds since 1970 UTC. */
  at_us: number;
  direction: "in" | "out";
  /** Null where what is kept is damaged, or is no UTF-8. */
  message: string | null;
  hex: string | null;
}

/** An order that was passed to a venue. Numbers are decimals as text; what no message said is null. */
export interface FixOrder {
  session: string;
  venue: string;
  cl_ord_id: string;
  order_id: string | null;
  account: string | null;
  symbol: string | null;
  side: string | null;
  quantity: string | null;
  price: string | null;
  cum: string | null;
  leaves: string | null;
  state: "open" | "replacing" | "in_doubt" | "closed";
  /** By the id of each budget that binds it; null where none does. */
  hold: Record<string, string | null> | null;
  booked: Record<string, string | null> | null;
}

/** Of a budget that binds orders: amounts as they are answered, decimal text. */
export type BoundBudget = Pick<Budget, "id" | "name" | "unit" | "limit" | "held" | "spent" | "available">;

/** Orders that are stopped. */
export interface FixKill {
  scope: "session" | "account" | "firm";
  name: string;
  reason: string;
  /** Null where there are no tokens. */
  who: string | null;
  at_ms: number;
  /** A restart knows of it. */
  sealed: boolean;
  /** Those that it stops as a whole. */
  sessions: string[];
}
