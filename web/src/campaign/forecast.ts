// What a budget will have spent by the end of its day and of its flight. An estimate for people: it never touches money.
//
// Where there is a plan, the figure that matters is how much was spent of what the plan wanted: the plan knows the hours of
// the day, the days of the week and what is left. Without one it is the rate. Limits bind both: no day above a daily limit,
// nothing above what is left, here and in every budget above. Later days are civil days, so that a day of 23 or 25 hours is
// one day.

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;
/** Below this nothing is said. */
export const DATA_MIN_MS = 30 * MINUTE_MS;
/** Parts of the data that are compared for a range, and how many it takes. */
const PART_MS = 30 * MINUTE_MS;
const PARTS_MIN = 4;
/** Nobody can say what is so many days ahead. */
export const DAYS_MAX = 3_660;

/** A budget that binds: the campaign itself, or one above it. Base units. */
export interface Binding {
  available: number;
  daily: number | null;
  daySpent: number;
}

/** What the plan of a window says by now. Base units. */
export interface Planned {
  budget: number;
  planned: number;
  spent: number;
  /** The window is a day; else the flight. */
  daily: boolean;
}

/** One look at the sums of a window; `planned` is null without a plan. */
export interface Sample {
  ms: number;
  spent: number;
  planned: number | null;
}

/** Of the budget's zone: how long its day still is, and how many civil days of its flight follow; null: no end. */
export interface Ahead {
  dayLeftMs: number;
  daysAfter: number | null;
  /** The part of the last of these days that is in the flight, or of today where none follows. */
  lastPart: number;
}

export interface Range {
  low: number;
  likely: number;
  high: number;
}

/** With a plan: the part of the planned that was spent. Without: base units a millisecond. */
export interface Observed {
  ms: number;
  rate: Range;
}

/** When the limit is reached, in civil days from today; null: not within the flight, or not within `DAYS_MAX`. */
export interface Reached {
  soonest: number | null;
  latest: number | null;
  /** From now, where that is today and no plan spreads the day. */
  soonestMs: number | null;
}

export interface Forecast {
  /** Spent in the whole of today; null where the plan's window is the flight: the page does not know how it spreads over days. */
  today: Range | null;
  /** Spent from now to the flight's end; null where it has none, or it is too far away. */
  toEnd: Range | null;
  reached: Reached;
}

const quantile = (sorted: readonly number[], part: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))]!;

/** What was spent between two looks. Sums begin anew with their window; what holds may come to makes them fall a little. */
function step(before: Sample, now: Sample): { ms: number; spent: number; planned: number | null } {
  const begun =
    now.planned !== null && before.planned !== null
      ? now.planned < before.planned
      : now.spent < before.spent / 2;
  const since = (was: number, is: number) => (begun ? is : is - was);
  const planned = now.planned === null || before.planned === null ? null : since(before.planned, now.planned);
  return { ms: now.ms - before.ms, spent: since(before.spent, now.spent), planned };
}

/** From looks in the order of time, as far back as they are of use. */
export function observe(samples: readonly Sample[], hasPlan: boolean): Observed {
  const of = samples.filter(({ planned }) => (planned !== null) === hasPlan);
  const steps = of.slice(1).map((sample, i) => step(of[i]!, sample));
  const weight = (one: (typeof steps)[number]) => (hasPlan ? (one.planned ?? 0) : one.ms);
  const sum = (all: typeof steps, what: (one: (typeof steps)[number]) => number) =>
    all.reduce((total, one) => total + what(one), 0);
  const whole = sum(steps, weight);
  // Hours in which the plan is closed are no data.
  const ms = sum(
    steps.filter((one) => weight(one) > 0),
    (one) => one.ms,
  );
  const likely =
    whole > 0
      ? Math.max(
          0,
          sum(steps, ({ spent }) => spent),
        ) / whole
      : 0;
  const rates: number[] = [];
  let part: typeof steps = [];
  for (const one of steps) {
    part.push(one);
    if (sum(part, (of) => of.ms) < PART_MS || sum(part, weight) < whole / 100) continue;
    rates.push(
      Math.max(
        0,
        sum(part, ({ spent }) => spent),
      ) / sum(part, weight),
    );
    part = [];
  }
  if (rates.length < PARTS_MIN) return { ms, rate: { low: likely, likely, high: likely } };
  rates.sort((a, b) => a - b);
  const [low, high] = [quantile(rates, 0.1), quantile(rates, 0.9)];
  return { ms, rate: { low: Math.min(low, likely), likely, high: Math.max(high, likely) } };
}

interface Run {
  today: number;
  total: number;
  reached: number | null;
}

/** The most that all levels let through today, and in each later day. */
const mostToday = (levels: readonly Binding[]) =>
  Math.min(...levels.map(({ daily, daySpent }) => Math.max(0, (daily ?? Infinity) - daySpent)));
const mostLater = (levels: readonly Binding[]) => Math.min(...levels.map(({ daily }) => daily ?? Infinity));

function run(levels: readonly Binding[], plan: Planned | null, ahead: Ahead, rate: number): Run {
  const all = Math.max(0, Math.min(...levels.map(({ available }) => available)));
  if (all === 0) return { today: 0, total: 0, reached: 0 };
  const days = Math.min(ahead.daysAfter ?? DAYS_MAX, DAYS_MAX);
  const [first, later] = [mostToday(levels), mostLater(levels)];
  const room = plan === null ? Infinity : Math.max(0, plan.budget - plan.spent);
  const ofPlan = plan === null ? 0 : Math.min(room, rate * Math.max(0, plan.budget - plan.planned));
  if (plan !== null && !plan.daily) {
    // The plan keeps some of it until the end, so that is when the last of it goes.
    const total = Math.min(ofPlan, all, first + later * days);
    return { today: NaN, total, reached: total >= all ? days : null };
  }
  const spread = (part: number) => rate * part * DAY_MS;
  const now = plan === null ? rate * ahead.dayLeftMs : ofPlan;
  const today = Math.min(now * (plan === null && ahead.daysAfter === 0 ? ahead.lastPart : 1), first, all);
  let left = all - today;
  if (left <= 0) return { today, total: today, reached: 0 };
  for (let day = 1; day <= days; day++) {
    const target = Math.max(plan?.budget ?? 0, ahead.daysAfter === null ? 0 : left / (days - day + 1));
    const wanted =
      plan === null ? spread(day === days && ahead.daysAfter !== null ? ahead.lastPart : 1) : rate * target;
    left -= Math.min(wanted, plan === null ? Infinity : target, later, left);
    if (left <= 0) return { today, total: all, reached: day };
  }
  return { today, total: all - left, reached: null };
}

/** `levels`: the budget itself, then those above it. */
export function forecast(
  levels: readonly Binding[],
  plan: Planned | null,
  ahead: Ahead,
  { low, likely, high }: Range,
): Forecast {
  const [slow, usual, fast] = [low, likely, high].map((rate) => run(levels, plan, ahead, rate)) as [
    Run,
    Run,
    Run,
  ];
  const spent = levels[0]!.daySpent;
  const hasEnd = ahead.daysAfter !== null && ahead.daysAfter <= DAYS_MAX;
  const left = Math.max(0, Math.min(...levels.map(({ available }) => available)));
  return {
    today: Number.isNaN(usual.today)
      ? null
      : { low: spent + slow.today, likely: spent + usual.today, high: spent + fast.today },
    toEnd: hasEnd ? { low: slow.total, likely: usual.total, high: fast.total } : null,
    reached: {
      soonest: fast.reached,
      latest: slow.reached,
      soonestMs: fast.reached === 0 && plan === null && high > 0 ? left / high : null,
    },
  };
}
