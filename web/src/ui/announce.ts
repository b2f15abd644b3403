// What a screen reader is told, politely: one place for all pages, so that no two voices speak at once.
import { useSyncExternalStore } from "react";

let spoken = "";
const listeners = new Set<() => void>();

export function announce(text: string): void {
  if (text === spoken) return;
  spoken = text;
  for (const changed of listeners) changed();
}

function subscribe(changed: () => void): () => void {
  listeners.add(changed);
  return () => void listeners.delete(changed);
}

export const useAnnounced = (): string => useSyncExternalStore(subscribe, () => spoken);
