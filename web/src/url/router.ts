// Addresses under /ui/ and the browser's history; 50 lines instead of a library.
import { useSyncExternalStore } from "react";
import { isHandle } from "./handle";
import PAGES from "./pages.json";

const BASE = "/ui/";
const MOVED = "weir:moved";
const LEAVING = "weir:leaving";

/** Pages that have their name as address. The node reads the same file: it answers 404 for any other. */
type Named = keyof typeof PAGES;

export type Page = "campaigns" | "campaign" | Named | "unknown";

export const isNamed = (text: string): text is Named => Object.hasOwn(PAGES, text);

export const titleOf = (page: Page): string | undefined =>
  page === "campaigns" ? "Budgets" : isNamed(page) ? PAGES[page] : undefined;

/** In the order of the menu. */
export const TOP: readonly Page[] = ["campaigns", ...Object.keys(PAGES).filter(isNamed)];

export interface Address {
  page: Page;
  /** The budget of a campaign's page: its id, or its handle. */
  id: string;
  search: string;
}

const isId = (text: string): boolean => /^\d{1,20}$/.test(text);

/** A handle may have been typed, with its slashes as they are. */
function unescaped(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export function placeOf(path: string, search: string): Address {
  const [page = "", id = "", ...more] = path
    .replace(/^\/ui\/?/, "")
    .replace(/\/+$/, "")
    .split("/");
  if (page === "campaign") {
    const name = unescaped([id, ...more].join("/"));
    return isId(name) || isHandle(name) ? { page, id: name, search } : { page: "unknown", id: "", search };
  }
  if (more.length > 0) return { page: "unknown", id: "", search };
  if (page === "") return { page: "campaigns", id: "", search };
  if (isNamed(page) && id === "") return { page, id: "", search };
  return { page: "unknown", id: "", search };
}

export const addressOf = (page: Page, id = ""): string =>
  page === "campaigns" ? BASE : `${BASE}${page}${id === "" ? "" : `/${encodeURIComponent(id)}`}`;

/** What an entry of the browser's history keeps, besides its address. */
export interface Kept {
  /** Of a list: where its reader was. */
  place?: Place;
  /** Of a campaign's page: the view that it was opened from, as text. */
  list?: string;
}

/** Where the reader of a list was. */
export interface Place {
  /** The budget of the tab stop, and its column. */
  id: string;
  column: number;
  /** Pixels from the upper edge of the view to that budget's row. */
  below: number;
  top: number;
  left: number;
}

export const kept = (): Kept => (history.state ?? {}) as Kept;

let hasMoved = false;
/** Did the reader come from another page of this dashboard? Then the focus was lost on the way, and may be given back. */
export const cameFromWithin = (): boolean => hasMoved;

/** Keeps something with the present entry. */
export const keep = (more: Kept): void => history.replaceState({ ...kept(), ...more }, "");

/** Runs before another address comes, or another document. */
export function onLeave(leaving: () => void): () => void {
  window.addEventListener(LEAVING, leaving);
  window.addEventListener("pagehide", leaving);
  return () => {
    window.removeEventListener(LEAVING, leaving);
    window.removeEventListener("pagehide", leaving);
  };
}

export function go(address: string, replace = false, more: Kept | null = null): void {
  hasMoved = true;
  if (!replace) window.dispatchEvent(new Event(LEAVING));
  if (replace) history.replaceState(history.state, "", address);
  else history.pushState(more, "", address);
  window.dispatchEvent(new Event(MOVED));
}

function subscribe(changed: () => void): () => void {
  window.addEventListener("popstate", changed);
  window.addEventListener(MOVED, changed);
  return () => {
    window.removeEventListener("popstate", changed);
    window.removeEventListener(MOVED, changed);
  };
}

/** The address as text: React compares it by value. */
export function usePlace(): Address {
  const address = useSyncExternalStore(subscribe, () => location.pathname + location.search);
  const [path = "", search = ""] = address.split("?");
  return placeOf(path, search);
}

/** A plain click on a link stays in the page; all others are the browser's. */
export const isPlain = (event: React.MouseEvent): boolean =>
  !event.defaultPrevented &&
  event.button === 0 &&
  !event.metaKey &&
  !event.ctrlKey &&
  !event.shiftKey &&
  !event.altKey;

export function follow(event: React.MouseEvent<HTMLAnchorElement>): void {
  if (!isPlain(event)) return;
  event.preventDefault();
  go(event.currentTarget.getAttribute("href") ?? BASE);
}
