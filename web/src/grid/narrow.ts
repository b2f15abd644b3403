// What of the table stands in a window with less room: columns get narrower first, then what shows the same as a picture gives way.
import { useSyncExternalStore } from "react";
import type { ShownColumn } from "../url/view";
import { columnOf } from "./columns";

export type Room = "wide" | "middle" | "narrow";

/** As in the style sheets; the default columns at their own widths need 1,440 pixels, at their narrow ones 1,280. */
const NARROW = "(max-width: 999px)";
const MIDDLE = "(max-width: 1439px)";

export const GIVES_WAY: ReadonlySet<string> = new Set(["pace", "spend"]);

/** Columns with a width of the reader's keep it. Somebody who shows only what would give way keeps that. */
export function narrowed(columns: readonly ShownColumn[], room: Room): readonly ShownColumn[] {
  if (room === "wide") return columns;
  const staying = columns.filter(({ key }) => room === "middle" || !GIVES_WAY.has(key));
  return (staying.length === 0 ? columns : staying).map((shown) => {
    const { width, narrow } = columnOf(shown.key)!;
    return narrow !== undefined && shown.width === width ? { ...shown, width: narrow } : shown;
  });
}

function subscribe(changed: () => void): () => void {
  const queries = [NARROW, MIDDLE].map((query) => window.matchMedia(query));
  for (const query of queries) query.addEventListener("change", changed);
  return () => queries.forEach((query) => query.removeEventListener("change", changed));
}

const roomNow = (): Room =>
  window.matchMedia(NARROW).matches ? "narrow" : window.matchMedia(MIDDLE).matches ? "middle" : "wide";

export const useRoom = (): Room => useSyncExternalStore(subscribe, roomNow);
