// Waiting for what must come true, instead of sleeping.
import { setTimeout as sleep } from "node:timers/promises";

const STEP_MS = 100;
/** How long anything may take that a page, a node or a browser does, on a machine that is busy with other things. */
export const PATIENCE_MS = 60_000;

/** The first value of `probe` that is not false, null or undefined; an error that says what was waited for if there is none in time. */
export async function until(what, probe, withinMs = PATIENCE_MS) {
  const end = performance.now() + withinMs;
  let last;
  for (;;) {
    try {
      const value = await probe();
      if (value !== false && value !== null && value !== undefined) return value;
      last = value;
    } catch (error) {
      last = error;
    }
    if (performance.now() > end)
      throw new Error(
        `waited ${withinMs / 1000} s for ${what}; last: ${last instanceof Error ? last.message : String(last)}`,
      );
    await sleep(STEP_MS);
  }
}

/** Fails with both values unless they are the same. */
export function same(found, expected, what) {
  const [left, right] = [JSON.stringify(found), JSON.stringify(expected)];
  if (left !== right) throw new Error(`${what}: found ${left}, expected ${right}`);
}

/**
 * The same for what a page shows: it is drawn a moment after it became true, so it is read until it is as expected. What is read once
 * may be what stood there before.
 */
export async function becomes(probe, expected, what, withinMs = PATIENCE_MS) {
  const wanted = JSON.stringify(expected);
  let found;
  try {
    await until(
      what,
      async () => {
        found = await probe();
        return JSON.stringify(found) === wanted;
      },
      withinMs,
    );
  } catch (error) {
    throw new Error(`${what}: found ${JSON.stringify(found)}, expected ${wanted}`, { cause: error });
  }
}

/** Fails unless `truth`. */
export function sure(truth, what) {
  if (!truth) throw new Error(what);
}
