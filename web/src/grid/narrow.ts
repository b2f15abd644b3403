// What of the table stands in a narrow window: the sums stay, and what shows the same as a picture gives way.
import { useSyncExternalStore } from "react";
import type { ShownColumn } from "../url/view";
import { columnOf } from "./columns";

/** As in the style sheets. */
const NARROW = "(max-width: 999px)";

export const GIVES_WAY: ReadonlySet<string> = new Set(["pace", "spend"]);

/** Columns with a width of the reader's keep it. Somebody who shows only what would give way keeps that. */
export function narrowed(columns: readonly ShownColumn[]): readonly ShownColumn[] {
  const staying = columns.filter(({ key }) => !GIVES_WAY.has(key));
  return (staying.length === 0 ? columns : staying).map((shown) => {
    const { width, narrow } = columnOf(shown.key)!;
    return narrow !== undefined && shown.width === width ? { ...shown, width: narrow } : shown;
  });
}

function subscribe(changed: () => void): () => void {
  const query = window.matchMedia(NARROW);
  query.addEventListener("change", changed);
  return () => query.removeEventListener("change", changed);
}

export const useNarrow = (): boolean =>
  useSyncExternalStore(subscribe, () => window.matchMedia(NARROW).matches);
