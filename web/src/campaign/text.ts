// Text of strangers: shown as it is, but for characters that would make it look like something else.

/** Control characters, and those that turn the direction of what follows or show nothing at all. */
// eslint-disable-next-line no-control-regex
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** Unseen characters as their numbers: "a⟨U+202E⟩b". */
export const visible = (text: string): string =>
  text.replace(UNSEEN, (one) => `⟨U+${one.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);

type Parse = (
  text: string,
  revive: (key: string, value: unknown, context?: { source?: string }) => unknown,
) => unknown;

/** JSON as data; numbers as they are written where the browser tells, for ids may have more digits than a double. */
export function parsed(text: string): unknown {
  try {
    return (JSON.parse as Parse)(text, (_, value, context) =>
      typeof value === "number" ? new Exactly(context?.source ?? String(value)) : value,
    );
  } catch {
    return undefined;
  }
}

/** A number as it is written. */
export class Exactly {
  constructor(readonly text: string) {}

  toJSON(): string {
    return this.text;
  }
}
