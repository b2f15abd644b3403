// How fast the vault is used: what one answer counts more than the one before it.
import type { Vault } from "../api/types";

/** An answer, and when it came, in milliseconds of a clock that only runs forward. */
export interface Seen {
  vault: Vault;
  atMs: number;
}

export interface Rates {
  calls: number | null;
  items: number | null;
  /** Messages a second, by key; without those of which nothing can be said. */
  messages: ReadonlyMap<string, number>;
}

export const NO_RATES: Rates = { calls: null, items: null, messages: new Map() };

/** Nothing can be said of a node that was started anew between the two, nor of a key that was rotated. */
export function ratesOf(before: Seen, now: Seen): Rates {
  const seconds = (now.atMs - before.atMs) / 1_000;
  if (seconds <= 0 || now.vault.calls < before.vault.calls) return NO_RATES;
  const perSecond = (less: number, more: number) => (more - less) / seconds;
  const known = new Map(before.vault.keys.map((key) => [key.name, key]));
  const messages = new Map<string, number>();
  for (const key of now.vault.keys) {
    const was = known.get(key.name);
    if (was === undefined || was.messages === null || key.messages === null) continue;
    if (was.latest_version !== key.latest_version || key.messages < was.messages) continue;
    messages.set(key.name, perSecond(was.messages, key.messages));
  }
  return {
    calls: perSecond(before.vault.calls, now.vault.calls),
    items: perSecond(before.vault.items, now.vault.items),
    messages,
  };
}
