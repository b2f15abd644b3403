// What a chart shows of its window, and how the numbers of its axis are written.

type Column = readonly (number | null)[];

/** A window of which less is known than this begins at its first figure: else the first day is a spike at the right edge. */
const KNOWN_LEAST = 0.2;

/** The step at which a chart begins. */
export function firstShown(columns: readonly Column[]): number {
  const steps = columns[0]?.length ?? 0;
  const first = Array.from({ length: steps }, (_, i) => i).find((i) =>
    columns.some((column) => (column[i] ?? null) !== null),
  );
  if (first === undefined || steps - first >= steps * KNOWN_LEAST) return 0;
  // One point is no line: the step before it, of which nothing is known, gives the axis a width.
  return Math.min(first, Math.max(0, steps - 2));
}

/** Is there a figure that is not nothing? */
export const hasFigures = (columns: readonly Column[]): boolean =>
  columns.some((column) => column.some((value) => value !== null && value !== 0));

const SIZES: readonly [least: number, size: number, name: string][] = [
  [1e9, 1e9, " bn"],
  [1e6, 1e6, " M"],
  [1e5, 1e3, " k"],
];
const DECIMALS_MOST = 9;

/** How many decimals tell all multiples of a step apart: 0.005 has three, 2.5 one. */
function decimalsOf(step: number): number {
  for (let decimals = 0; decimals < DECIMALS_MOST; decimals += 1) {
    const scaled = step * 10 ** decimals;
    if (Math.abs(scaled - Math.round(scaled)) < 1e-6 * scaled) return decimals;
  }
  return DECIMALS_MOST;
}

/** Thin spaces between thousands, as amounts have them. */
const plain = (value: number, options: Intl.NumberFormatOptions): string =>
  value.toLocaleString("en", options).replaceAll(",", "\u202f").replace("-", "−");

const numberText = (value: number, decimals: number): string =>
  plain(value, { minimumFractionDigits: decimals, maximumFractionDigits: decimals });

/** The numbers of an axis: all in one size, each with the decimals that the step between them needs. */
export function tickTexts(values: readonly number[], step: number): string[] {
  const most = Math.max(0, ...values.map(Math.abs));
  const [, size, name] = SIZES.find(([least]) => most >= least) ?? [0, 1, ""];
  const decimals = decimalsOf(step / size);
  return values.map((value) => (value === 0 ? "0" : numberText(value / size, decimals) + name));
}

const SMALL_DIGITS = 3;

/** An amount under the pointer: cents, and below one unit the digits that tell it from nothing. */
export function amountText(value: number): string {
  const [, size, name] = SIZES.find(([least]) => Math.abs(value) >= least) ?? [0, 1, ""];
  const scaled = value / size;
  const isSmall = scaled !== 0 && Math.abs(scaled) < 1;
  return (
    plain(scaled, isSmall ? { maximumSignificantDigits: SMALL_DIGITS } : { maximumFractionDigits: 2 }) + name
  );
}
