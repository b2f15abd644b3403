// A small chart of accepted counts: where its points and its band lie.

export interface Spark {
  /** From left to right, in the units of the box. */
  points: { x: number; y: number }[];
  /** From the last point: so much more is let through. */
  band: { top: number; bottom: number };
}

/** Places values in a box; the band reaches `bandPpm` above and below the last of them. Null without values. */
export function sparkOf(
  values: readonly number[],
  bandPpm: number,
  width: number,
  height: number,
): Spark | null {
  const last = values.at(-1);
  if (last === undefined) return null;
  const reach = (Math.abs(last) * bandPpm) / 1e6;
  const low = Math.min(last - reach, ...values);
  const high = Math.max(last + reach, ...values);
  const y = (value: number) => (high > low ? height - ((value - low) / (high - low)) * height : height / 2);
  const x = (i: number) => (values.length > 1 ? (i / (values.length - 1)) * width : width);
  return {
    points: values.map((value, i) => ({ x: x(i), y: y(value) })),
    band: { top: y(last + reach), bottom: y(last - reach) },
  };
}

/** How much more the last one is than the one before, in millionths; null without one before. */
export function lastChangePpm(values: readonly number[]): number | null {
  const [before, last] = values.slice(-2);
  if (before === undefined || last === undefined || before === 0) return null;
  return Math.round(((last - before) / before) * 1e6);
}
