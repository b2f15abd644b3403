// Generated from schema/live.xml and schema/words.txt by scripts/live-layout.mjs; do not edit.

export const SCHEMA = { id: 7702, version: 3 } as const;

/** Template ids. */
export const TEMPLATE = {
  snapshot: 1, delta: 2, sparks: 3, patch: 4, acknowledge: 129, watch: 130, resync: 131,
} as const;

/** Before every message: bytes from its beginning. */
export const MESSAGE_HEADER = {
  bytes: 8, blockLength: 0, templateId: 2, schemaId: 4, version: 6,
} as const;

/** Before the entries of every group. */
export const GROUP_HEADER = {
  bytes: 4, blockLength: 0, numInGroup: 2,
} as const;

/** The root block of Snapshot: bytes from its beginning. */
export const SNAPSHOT_BLOCK = {
  bytes: 32, sequence: 0, asOfMs: 8, run: 16, firstRow: 20, rowsTotal: 24, hidden: 28,
} as const;

/** The root block of Delta: bytes from its beginning. */
export const DELTA_BLOCK = {
  bytes: 24, sequence: 0, asOfMs: 8, run: 16, hidden: 20,
} as const;

/** The root block of Sparks: bytes from its beginning. */
export const SPARKS_BLOCK = {
  bytes: 20, sequence: 0, asOfMs: 8, run: 16,
} as const;

/** The root block of Patch: bytes from its beginning. */
export const PATCH_BLOCK = {
  bytes: 24, sequence: 0, asOfMs: 8, run: 16, hidden: 20,
} as const;

/** The root block of Acknowledge: bytes from its beginning. */
export const ACKNOWLEDGE_BLOCK = {
  bytes: 8, sequence: 0,
} as const;

/** The root block of Watch: bytes from its beginning. */
export const WATCH_BLOCK = {
  bytes: 8, sequence: 0,
} as const;

/** The root block of Resync: bytes from its beginning. */
export const RESYNC_BLOCK = {
  bytes: 8, sequence: 0,
} as const;

/** An entry of the group budgets: bytes from its beginning. */
export const BUDGETS_ENTRY = {
  bytes: 44, id: 0, parent: 8, startMs: 16, endMs: 24, unit: 32, zone: 36, pacing: 38, kind: 39, template: 40,
} as const;

/** An entry of the group states: bytes from its beginning. */
export const STATES_ENTRY = {
  bytes: 168, row: 0, status: 4, reason: 5, topRefusal: 6, flags: 7, sinceMs: 8, limit: 16, spent: 24, debt: 32,
  held: 40, available: 48, windowStartMs: 56, windowEndMs: 64, windowBudget: 72, windowPlanned: 80,
  windowSpent: 88, daily: 96, daySpent: 104, dayEndsMs: 112, spendMinute: 120, asks: 128, grants: 132,
  refusals: 136, topRefusals: 140, booked: 144, impressions: 152, clicks: 160,
} as const;

/** An entry of the group windows: bytes from its beginning. */
export const WINDOWS_ENTRY = {
  bytes: 24, row: 0, period: 4, refill: 5, reserved: 6, limit: 8, used: 16,
} as const;

/** An entry of the group sparks: bytes from its beginning. */
export const SPARKS_ENTRY = {
  bytes: 8, row: 0, filled: 4,
} as const;

/** An entry of the group steps: bytes from its beginning. */
export const STEPS_ENTRY = {
  bytes: 8, spent: 0,
} as const;

/** An entry of the group changes: bytes from its beginning. */
export const CHANGES_ENTRY = {
  bytes: 12, row: 0, mask: 4,
} as const;

/** An entry of the group rows: bytes from its beginning. */
export const ROWS_ENTRY = {
  bytes: 4, row: 0,
} as const;

/** How a budget stands; the index is the code. */
export const STATUSES = ["active", "limited", "paused", "exhausted", "ended", "no_purse", "error", "waiting"] as const;

/** Why a budget stands as it does; the index is the code. */
export const REASONS = ["", "no_traffic", "outbid", "floor", "cap", "purse", "blocked", "held", "catching_up", "paced", "limit", "day_limit", "parent", "flight_ahead", "flight_over", "day_parts", "owner", "removed", "purse_denied", "journal", "busy", "lost", "not_in_force"] as const;

/** The verdicts of the batch protocol that refuse an ask, with the same numbers; the index is the code. */
export const VERDICTS = ["", "unknown_budget", "bad_amount", "unit_mismatch", "not_started", "ended", "paused", "paced", "exhausted", "day_exhausted", "purse_empty", "pod_refused", "id_reused", "busy", "journal", "cut_off", "window_exhausted"] as const;

/** How a budget's spend is spread; the index is the code. */
export const PACINGS = ["asap", "schedule", "coin", "curve", "steer", "auto"] as const;

/** What a budget is for; the index is the code. */
export const KINDS = ["budget", "campaign"] as const;

/** How long a window is, in the budget's zone; the index is the code. */
export const PERIODS = ["minute", "hour", "day", "week", "month"] as const;

/** What is true of a budget beside its status; the index is the bit. */
export const FLAG_NAMES = ["debt", "open", "lowered", "edited"] as const;
export const FLAG = { debt: 1, open: 2, lowered: 4, edited: 8 } as const;

/** What a code means, as a sentence; from schema/words.txt. */
export const SENTENCES: Readonly<Record<string, string>> = {
  no_traffic: "too little traffic fits it",
  outbid: "another campaign of this node goes before it",
  lost: "it bids all it may, and too few of its bids win",
  floor: "its bid is below the floor",
  cap: "the user has seen it often enough, or is not known",
  purse: "the worker's share of its money is used up for the moment",
  blocked: "the publisher blocks its domain, category, attributes or app",
  held: "its money waits in holds",
  catching_up: "it is behind its plan and catches up",
  paced: "the plan says not now",
  limit: "nothing is left of its limit, or less than was asked",
  day_limit: "nothing is left of a window's limit: of today's, or of its minute, hour, week or month",
  parent: "a budget above it is paused, outside its flight, or has too little left",
  flight_ahead: "its flight has not begun",
  flight_over: "its flight is over",
  day_parts: "it does not run at this hour",
  owner: "its owner paused it",
  removed: "it is no longer among the budgets",
  purse_denied: "funds remain, but this node's workers hold none",
  journal: "the journal cannot seal",
  busy: "a bounded queue is full",
  not_in_force: "no set of budgets is in force: the file was refused, or is not there",
  bid: "it bids",
  targeting: "it does not want such a place, person, time or size",
  currency: "the exchange does not take its currency, or a floor is in one without a rate",
  seat: "its seat may not bid there",
  deal: "only deals are sold that it does not have",
  budget: "its budget is spent, paused, or outside its flight",
  insecure: "the place wants HTTPS only, and its creatives are not",
  exclusive: "it, or its advertiser, has another impression of the request",
  group: "the rest of the pod cannot be filled",
  deadline: "there is no time left",
  unknown_budget: "there is no such budget",
  bad_amount: "the amount is zero, negative or too large",
  unit_mismatch: "it is asked for in another unit",
  not_started: "its flight has not begun yet",
  ended: "its flight is over, or it was removed",
  paused: "it is paused",
  exhausted: "less is left of a limit than was asked",
  day_exhausted: "less is left of a daily limit than was asked",
  cut_off: "the node has had no news of its log for a whole lease",
  window_exhausted: "less is left of a window than was asked",
  purse_empty: "the worker's share of its money is used up",
  pod_refused: "another ask of its pod is refused",
  id_reused: "the request id was used before",
};
