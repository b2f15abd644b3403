// Amounts are whole base units. Text and typed input go through BigInt; the grid shows doubles, which are exact up to
// 2^53 base units (9.0 billion in a currency in micros, 9.0 million in nanos). No division makes a float of money: digits are cut from the whole number.

const MICROS = 6;
const NANOS = 9;
/** Digits people expect of a currency; others have two. */
const SHOWN: Record<string, number> = {
  JPY: 0,
  KRW: 0,
  VND: 0,
  CLP: 0,
  ISK: 0,
  KWD: 3,
  BHD: 3,
  OMR: 3,
  TND: 3,
};
const NONE = "–";

/** Decimals of a unit's base: micros of "USD", nanos of "USDn", whole items of "count". */
export const baseDecimals = (unit: string): number =>
  unit === "count" ? 0 : unit.length === 4 && unit.endsWith("n") ? NANOS : MICROS;

export const shownDecimals = (unit: string): number =>
  unit === "count" ? 0 : (SHOWN[unit.slice(0, 3)] ?? 2);

/** Thin spaces between thousands. By hand: an expression takes ten times as long, and cells write hundreds of amounts at once. */
export function grouped(digits: string): string {
  let text = digits.slice(-3);
  for (let end = digits.length - 3; end > 0; end -= 3)
    text = `${digits.slice(Math.max(0, end - 3), end)}\u202f${text}`;
  return text;
}

/** Decimal text of an answer to its last digit, as the books have it. */
export function groupedDecimal(text: string | null): string {
  if (text === null) return NONE;
  const [whole = "", part] = text.replace("-", "").split(".");
  return (text.startsWith("-") ? "−" : "") + grouped(whole) + (part === undefined ? "" : `.${part}`);
}

/** So that what is spent and what remains add up in neighbouring columns, and neither is shown better than it is: what is spent is rounded
 * up, everything else is cut. */
export type Rounding = "up" | "cut";

/** The next amount that needs no more decimals than are shown. */
function roundedUp(digits: string, base: number, decimals: number): string {
  const unseen = base - decimals;
  if (!/[1-9]/.test(digits.slice(-unseen))) return digits;
  const step = 10n ** BigInt(unseen);
  return ((BigInt(digits) / step + 1n) * step).toString();
}

/** Digits of a whole number of base units, cut after `decimals`. Cut, not rounded: what is left is never shown as more than there is. */
function cut(digits: string, base: number, decimals: number): string {
  const padded = digits.padStart(base + 1, "0");
  const whole = grouped(padded.slice(0, -base));
  return decimals === 0 ? whole : `${whole}.${padded.slice(-base).slice(0, decimals)}`;
}

function shown(amount: bigint | number, unit: string, decimals: number, rounding: Rounding = "cut"): string {
  const negative = amount < 0;
  const exact = (negative ? -amount : amount).toString();
  const base = baseDecimals(unit);
  const digits = rounding === "up" && !negative && base > decimals ? roundedUp(exact, base, decimals) : exact;
  const text = unit === "count" ? grouped(digits) : cut(digits, baseDecimals(unit), decimals);
  return negative ? `−${text}` : text;
}

/** For a cell: without its unit, NaN is none. Doubles of a column are whole numbers below 10^21, so toString gives plain digits. */
export function cellText(amount: number, unit: string, rounding?: Rounding): string {
  return Number.isNaN(amount) ? NONE : shown(amount, unit, shownDecimals(unit), rounding);
}

/** From so many digits on, without so many, and their name. */
const SIZES: readonly [from: number, long: number, name: string][] = [
  [10, 9, " bn"],
  [7, 6, " M"],
  [5, 3, " k"],
];

/** In few characters, cut, without its unit: "657.5 M". For places where the size matters; the exact amount belongs in the title. */
export function shortText(amount: bigint | number, unit: string): string {
  if (typeof amount === "number" && Number.isNaN(amount)) return NONE;
  const digits = (amount < 0 ? -amount : amount).toString();
  const base = baseDecimals(unit);
  const whole = base === 0 ? digits : digits.padStart(base + 1, "0").slice(0, -base);
  const size = SIZES.find(([from]) => whole.length >= from);
  if (size === undefined) return shown(amount, unit, whole.length > 3 ? 0 : shownDecimals(unit));
  const [, long, name] = size;
  const decimals = whole.length === long + 1 ? 2 : 1;
  return `${amount < 0 ? "−" : ""}${grouped(whole.slice(0, -long))}.${whole.slice(-long).slice(0, decimals)}${name}`;
}

/** Every digit, with the unit: titles, dialogs, details. */
export function exactText(amount: bigint | number | null, unit: string): string {
  if (amount === null || (typeof amount === "number" && Number.isNaN(amount))) return NONE;
  return `${shown(amount, unit, baseDecimals(unit))} ${unit}`;
}

/** As in a cell, with its unit. */
export function moneyText(amount: bigint | null, unit: string, rounding?: Rounding): string {
  return amount === null ? NONE : `${shown(amount, unit, shownDecimals(unit), rounding)} ${unit}`;
}

/** What somebody typed, in units, as base units; null where it is not an amount of this unit. */
export function parseAmount(text: string, unit: string): bigint | null {
  const clean = text
    .trim()
    .replace(/[\s\u202f_]/g, "")
    .replace("−", "-");
  const match = /^(-?)(\d{1,18})(?:\.(\d{1,9}))?$/.exec(clean);
  if (match === null) return null;
  const [, sign = "", whole = "0", decimals = ""] = match;
  if (decimals.length > baseDecimals(unit)) return null;
  const base = BigInt(whole + decimals.padEnd(baseDecimals(unit), "0"));
  return sign === "-" ? -base : base;
}

/** Plain decimal text without grouping: the form that parseAmount, the API's filters and spreadsheets read. */
export function plainAmount(amount: bigint | number, unit: string): string {
  if (unit === "count") return amount.toString();
  const negative = amount < 0;
  const base = baseDecimals(unit);
  const digits = (negative ? -amount : amount).toString().padStart(base + 1, "0");
  const decimals = digits.slice(-base).replace(/0+$/, "");
  return `${negative ? "-" : ""}${digits.slice(0, -base)}${decimals === "" ? "" : `.${decimals}`}`;
}

/** Exact decimal text with at least two decimals, as the node writes amounts; NaN is nothing. */
export function decimalText(amount: bigint | number, unit: string): string {
  if (typeof amount === "number" && Number.isNaN(amount)) return "";
  if (unit === "count") return amount.toString();
  const base = baseDecimals(unit);
  const digits = (amount < 0 ? -amount : amount).toString().padStart(base + 1, "0");
  let end = digits.length;
  while (end > digits.length - base + 2 && digits[end - 1] === "0") end -= 1;
  return `${amount < 0 ? "-" : ""}${digits.slice(0, -base)}.${digits.slice(-base, end)}`;
}

/** Decimal text of an answer as text of base units, in which this page counts. */
export const baseText = (text: string, unit: string): string => parseAmount(text, unit)?.toString() ?? text;

const LARGE_TIMES = 100n;

/** Is it more than a hundred times as much? The node asks for one more word then; nothing is many times nothing. */
export const isLarge = (before: bigint, after: bigint): boolean =>
  before > 0n && after > before * LARGE_TIMES;

/** Base units as a double in units: for the axes of charts and for filters by range, never for a sum. */
export const inUnits = (amount: number, unit: string): number => amount / 10 ** baseDecimals(unit);

const HALF = 1 / 0x4000_0000;

/** Sum over columns of doubles without losing a unit: high and low halves are summed apart. */
export class Sum {
  private high = 0;
  private low = 0;

  add(amount: number): void {
    const high = Math.trunc(amount * HALF);
    this.high += high;
    this.low += amount - high * 0x4000_0000;
  }

  total(): bigint {
    return BigInt(this.high) * 0x4000_0000n + BigInt(this.low);
  }
}
