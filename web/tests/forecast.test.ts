import { describe, expect, it } from "vitest";
import type { Budget, History } from "../src/api/types";
import { dateAfter, dayNumber, nextDayMs } from "../src/campaign/days";
import { type Ahead, type Binding, type Planned, forecast, observe } from "../src/campaign/forecast";
import { aheadOf, outlook } from "../src/campaign/outlook";
import * as answers from "./answers";

const HOUR_MS = 3_600_000;

/** Numbers that look random and are the same each time. */
function numbers(seed: number): (most: number) => number {
  let state = seed;
  return (most) => {
    state = (Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x9e3779b9) | 0;
    return Math.floor(((state >>> 0) / 2 ** 32) * most);
  };
}

interface Case {
  levels: Binding[];
  plan: Planned | null;
  ahead: Ahead;
  rate: { low: number; likely: number; high: number };
}

function made(next: (most: number) => number): Case {
  const level = (): Binding => {
    const daily = next(3) === 0 ? null : 1 + next(1_000);
    return { available: next(100_000) - 100, daily, daySpent: next(1_200) };
  };
  const levels = Array.from({ length: 1 + next(3) }, level);
  const own = levels[0]!;
  const planned = next(1_000);
  const plan =
    next(2) === 0
      ? null
      : {
          budget: own.daily ?? planned + next(50_000),
          planned,
          spent: next(1_100),
          daily: own.daily !== null,
        };
  const [low, more, most] = [next(3_000) / 1_000, next(3_000) / 1_000, next(9_000) / 1_000];
  const scale = plan === null ? 1 / 100_000 : 1;
  return {
    levels,
    plan,
    ahead: {
      dayLeftMs: next(25 * HOUR_MS),
      daysAfter: next(3) === 0 ? null : next(500),
      lastPart: next(1_000) / 1_000,
    },
    rate: { low: low * scale, likely: (low + more) * scale, high: (low + more + most) * scale },
  };
}

/** The most that may be spent from now to the end of the day so many days ahead, by the limits alone. */
const allowed = (levels: readonly Binding[], days: number): number =>
  Math.min(
    ...levels.map(({ daily, daySpent }) =>
      daily === null ? Infinity : Math.max(0, daily - daySpent) + days * daily,
    ),
  );

describe("a forecast", () => {
  it("never says that a budget is spent before its daily limits allow it", () => {
    const next = numbers(7);
    const wrong: string[] = [];
    let reached = 0;
    for (let i = 0; i < 20_000; i++) {
      const { levels, plan, ahead, rate } = made(next);
      const left = Math.max(0, Math.min(...levels.map(({ available }) => available)));
      const told = forecast(levels, plan, ahead, rate);
      const must = (holds: boolean, what: string) =>
        holds || wrong.push(`${what}: ${JSON.stringify({ levels, plan, ahead, rate, told })}`);
      for (const days of [told.reached.soonest, told.reached.latest]) {
        if (days === null) continue;
        reached += 1;
        must(allowed(levels, days) + 1e-6 >= left, "too soon");
      }
      if (told.toEnd !== null) {
        const { low, likely, high } = told.toEnd;
        must(
          high <= Math.min(left, allowed(levels, ahead.daysAfter ?? 0)) + 1e-6,
          "more than the limits allow",
        );
        must(low <= likely + 1e-6 && likely <= high + 1e-6, "no range");
      }
      const { daily, daySpent } = levels[0]!;
      if (told.today !== null && daily !== null)
        must(told.today.high <= Math.max(daily, daySpent) + 1e-6, "a day above its limit");
    }
    expect(wrong.slice(0, 3)).toEqual([]);
    expect(reached, "cases in which a limit is reached").toBeGreaterThan(1_000);
  });

  it("knows the daily limit: 3,242 left of which 164 a day may go last twenty days, however fast the last minutes were", () => {
    const levels = [{ available: 3_242, daily: 164, daySpent: 100 }];
    const ahead = { dayLeftMs: 9 * HOUR_MS, daysAfter: null, lastPart: 1 };
    const rate = { low: 0.001, likely: 0.001, high: 0.001 };
    expect(forecast(levels, null, ahead, rate).reached.soonest).toBe(20);
  });

  it("goes on as the plan does, not as the last minutes do", () => {
    // A quarter of the day's plan is behind it, at night, and it is right on it.
    const plan = { budget: 400, planned: 100, spent: 100, daily: true };
    const levels = [{ available: 10_000, daily: 400, daySpent: 100 }];
    const ahead = { dayLeftMs: 12 * HOUR_MS, daysAfter: 9, lastPart: 1 };
    const told = forecast(levels, plan, ahead, { low: 1, likely: 1, high: 1 });
    expect(told.today).toEqual({ low: 400, likely: 400, high: 400 });
    expect(told.toEnd?.likely).toBe(300 + 9 * 400);
    expect(told.reached.soonest).toBeNull();
  });

  it("does not pass what a budget above it has left", () => {
    const own = { available: 1_000, daily: null, daySpent: 0 };
    const parent = { available: 500, daily: 10, daySpent: 10 };
    const ahead = { dayLeftMs: HOUR_MS, daysAfter: 4, lastPart: 0.5 };
    const told = forecast([own, parent], null, ahead, { low: 1, likely: 1, high: 1 });
    expect(told.today?.high).toBe(0);
    expect(told.toEnd?.high).toBe(40);
  });
});

describe("what was observed", () => {
  const look = (ms: number, spent: number, planned: number | null) => ({ ms, spent, planned });

  it("is a share of the plan, over gaps and a new window", () => {
    const { rate, ms } = observe([look(0, 0, 0), look(HOUR_MS, 50, 100), look(2 * HOUR_MS, 10, 20)], true);
    expect(rate.likely).toBeCloseTo(60 / 120);
    expect(ms).toBe(2 * HOUR_MS);
  });

  it("is no data while the plan is closed", () =>
    expect(observe([look(0, 5, 10), look(HOUR_MS, 5, 10)], true)).toEqual({
      ms: 0,
      rate: { low: 0, likely: 0, high: 0 },
    }));

  it("is a range where there are four parts, else one figure", () => {
    const looks = [0, 1, 3, 4, 10].map((spent, i) => look(i * HOUR_MS, spent * 100, null));
    const { low, likely, high } = observe(looks, false).rate;
    expect([low, likely, high].map((rate) => rate * HOUR_MS)).toEqual([100, 250, 600]);
    const few = observe(looks.slice(0, 3), false).rate;
    expect(few.low).toBe(few.high);
  });

  it("of nothing is nothing", () => expect(observe([], false).ms).toBe(0));
});

describe("in words", () => {
  const { NOW_MS } = answers;
  const kept = (minutes: number, spentAMinute: number): History => {
    const t_ms = Array.from({ length: minutes }, (_, i) => NOW_MS - (minutes - i) * 60_000);
    const spent = t_ms.map((_, i) => `${200_000_000 - (minutes - i) * spentAMinute}`);
    const planned = t_ms.map((_, i) => `${250_000_000 - (minutes - i) * 400_000}`);
    return { ...answers.history, t_ms, spent, planned };
  };
  const told = (budget: Partial<Budget>, history: History | null, above: Budget[] | null = []) => {
    const { value, notes } = outlook({ ...answers.budget, ...budget }, above, history, NOW_MS);
    return [value, ...notes].join("; ");
  };

  it("says nothing of less than 30 minutes, and that it does", () => {
    expect(told({}, kept(29, 300_000))).toContain("A forecast needs 30 minutes of data; there are 29");
    expect(told({}, kept(31, 300_000))).not.toContain("needs");
    expect(told({}, null)).toContain("No history yet");
  });

  it("says what is spent today and to the end of the flight, and since when it looks", () => {
    const text = told({}, kept(120, 320_000));
    expect(text).toMatch(/^320\.00 USD today; /);
    expect(text).toContain("more by the end of its flight");
    expect(text).toContain("its limit is not reached");
    expect(text).toContain("as it followed its plan in the last 2 h 0 m");
  });

  it("says a day, not an hour, where days lie between", () => {
    const budget = { available: "900000000", end_ms: null };
    expect(told(budget, kept(120, 400_000))).toContain("its limit is reached Mon 23 Nov 2026");
  });

  it("says why it says nothing of a budget that stands still", () => {
    for (const [budget, why] of [
      [{ status: "paused" }, "paused"],
      [{ available: "-5" }, "Nothing is left"],
      [{ end_ms: NOW_MS }, "flight is over"],
      [{ start_ms: NOW_MS + 1 }, "has not begun"],
    ] as const)
      expect(told(budget, kept(60, 1))).toContain(why);
  });

  it("shows amounts of a hostile node as amounts", () =>
    expect(told({ window_spent: "9223372036854775807" }, kept(60, 1))).not.toMatch(/NaN|Infinity/));
});

describe("civil days", () => {
  it("are those of the zone, also where the clock changes", () => {
    const evening = Date.UTC(2026, 9, 24, 23);
    // The day of 25 hours.
    expect(nextDayMs(evening, "Europe/Paris") - Date.UTC(2026, 9, 24, 22)).toBe(25 * HOUR_MS);
    expect(dayNumber(evening, "Europe/Paris") - dayNumber(evening, "UTC")).toBe(1);
    expect(dateAfter(evening, "UTC", 8)).toBe("Sun 1 Nov 2026");
  });

  it("between today and the flight's end are counted by dates", () => {
    const budget: Budget = {
      ...answers.budget,
      tz: "Europe/Paris",
      day_ends_ms: null,
      end_ms: Date.UTC(2026, 9, 27, 11),
    };
    expect(aheadOf(budget, Date.UTC(2026, 9, 24, 23))).toEqual({
      dayLeftMs: 24 * HOUR_MS,
      daysAfter: 2,
      lastPart: 0.5,
    });
    expect(aheadOf({ ...budget, end_ms: null }, 0).daysAfter).toBeNull();
  });
});
