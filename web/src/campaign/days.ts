// Civil days of a zone.

const DAY_MS = 86_400_000;
/** Longest civil day there is, and more. */
const LONGEST_MS = 27 * 3_600_000;

const formats = new Map<string, Intl.DateTimeFormat>();

/** Days since 1970 of the date in a zone. */
export function dayNumber(ms: number, zone: string): number {
  let format = formats.get(zone);
  if (format === undefined) {
    format = new Intl.DateTimeFormat("en-GB", {
      timeZone: zone,
      calendar: "gregory",
      year: "numeric",
      month: "numeric",
      day: "numeric",
    });
    formats.set(zone, format);
  }
  const parts = format.formatToParts(ms);
  const of = (type: string) => Number(parts.find((part) => part.type === type)?.value);
  return Math.round(Date.UTC(of("year"), of("month") - 1, of("day")) / DAY_MS);
}

/** When the next day begins. Searched for, as a day may have 22 to 26 hours and begin at one o'clock. */
export function nextDayMs(ms: number, zone: string): number {
  const today = dayNumber(ms, zone);
  let [before, after] = [ms, ms + LONGEST_MS];
  while (after - before > 1) {
    const middle = Math.floor((before + after) / 2);
    if (dayNumber(middle, zone) <= today) before = middle;
    else after = middle;
  }
  return after;
}

/** The date so many days after the one of `ms`: "Sat 12 Dec 2026". */
export const dateAfter = (ms: number, zone: string, days: number): string =>
  new Date((dayNumber(ms, zone) + days) * DAY_MS)
    .toLocaleDateString("en-GB", {
      timeZone: "UTC",
      weekday: "short",
      day: "numeric",
      month: "short",
      year: "numeric",
    })
    .replace(",", "");
