import { grouped } from "../money/money";

/** Whole numbers with thin spaces between thousands, as amounts have them. */
export function count(value: number): string {
  if (!Number.isFinite(value)) return "–";
  const digits = grouped(Math.round(Math.abs(value)).toString());
  return value <= -0.5 ? `-${digits}` : digits;
}

/** The word after a count of them. */
export const budgets = (rows: number): string => (rows === 1 ? "budget" : "budgets");

export function perSecond(value: number): string {
  if (!Number.isFinite(value)) return "–";
  return value >= 100 ? count(value) : value.toFixed(value >= 10 ? 1 : 2);
}

/** 12.3 M: for tiles, where the size matters and the digits do not. */
export function short(value: number): string {
  if (!Number.isFinite(value)) return "–";
  const steps: [number, string][] = [
    [1e9, " G"],
    [1e6, " M"],
    [1e3, " k"],
  ];
  const [size, name] = steps.find(([least]) => Math.abs(value) >= least) ?? [1, ""];
  const scaled = value / size;
  const decimals = size === 1 || Math.abs(scaled) >= 100 ? 0 : Math.abs(scaled) >= 10 ? 1 : 2;
  return `${scaled.toFixed(decimals)}${name}`;
}

export const percentOfPpm = (ppm: number, decimals = 1): string => `${(ppm / 10_000).toFixed(decimals)} %`;
export const micros = (us: number): string =>
  us >= 10_000 ? `${(us / 1000).toFixed(1)} ms` : `${count(us)} µs`;
