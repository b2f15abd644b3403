// Times as people read them, always with their zone.

const formats = new Map<string, Intl.DateTimeFormat>();

function format(zone: string, options: Intl.DateTimeFormatOptions, key: string): Intl.DateTimeFormat {
  const name = `${zone} ${key}`;
  const known = formats.get(name);
  if (known !== undefined) return known;
  const made = new Intl.DateTimeFormat("en-GB", { timeZone: zone, hourCycle: "h23", ...options });
  formats.set(name, made);
  return made;
}

let ownZone: string | undefined;

/** Asked once: the answer takes milliseconds. */
export const browserZone = (): string => (ownZone ??= Intl.DateTimeFormat().resolvedOptions().timeZone);

const MINUTE: Intl.DateTimeFormatOptions = {
  day: "numeric",
  month: "short",
  hour: "2-digit",
  minute: "2-digit",
  timeZoneName: "short",
};
const SECOND: Intl.DateTimeFormatOptions = {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  fractionalSecondDigits: 3,
  timeZoneName: "short",
};
const DAY_AND_SECOND: Intl.DateTimeFormatOptions = { ...MINUTE, second: "2-digit" };

export const dayAndSecond = (ms: number, zone: string): string =>
  format(zone, DAY_AND_SECOND, "day and second").format(ms).replace(",", "");
export const dayAndTime = (ms: number, zone: string): string =>
  format(zone, MINUTE, "minute").format(ms).replace(",", "");
export const exactTime = (ms: number, zone: string): string => format(zone, SECOND, "second").format(ms);
export const isoTime = (ms: number): string => (Number.isFinite(ms) ? new Date(ms).toISOString() : "");

/** How long, in the two largest units. */
export function span(ms: number): string {
  if (!Number.isFinite(ms)) return "–";
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} m`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${minutes % 60} m`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

export const age = (ms: number): string =>
  Number.isFinite(ms) ? (ms < 10_000 ? `${(ms / 1000).toFixed(1)} s` : span(ms)) : "–";
