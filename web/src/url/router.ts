// Addresses under /ui/ and the browser's history; 50 lines instead of a library.
import { useSyncExternalStore } from "react";

const BASE = "/ui/";
const MOVED = "weir:moved";

export type Page = "campaigns" | "campaign" | "engine" | "costs" | "audit" | "unknown";

export interface Place {
  page: Page;
  /** The budget of a campaign's page. */
  id: string;
  search: string;
}

export function placeOf(path: string, search: string): Place {
  const [page = "", id = ""] = path.replace(/^\/ui\/?/, "").split("/");
  if (page === "") return { page: "campaigns", id: "", search };
  if (page === "campaign" && /^\d{1,20}$/.test(id)) return { page, id, search };
  if ((page === "engine" || page === "costs" || page === "audit") && id === "")
    return { page, id: "", search };
  return { page: "unknown", id: "", search };
}

export const addressOf = (page: Page, id = ""): string =>
  page === "campaigns" ? BASE : `${BASE}${page}${id === "" ? "" : `/${id}`}`;

export function go(address: string, replace = false): void {
  if (replace) history.replaceState(history.state, "", address);
  else history.pushState(null, "", address);
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
export function usePlace(): Place {
  const address = useSyncExternalStore(subscribe, () => location.pathname + location.search);
  const [path = "", search = ""] = address.split("?");
  return placeOf(path, search);
}

/** A plain click on a link stays in the page; all others are the browser's. */
export function follow(event: React.MouseEvent<HTMLAnchorElement>): void {
  if (
    event.defaultPrevented ||
    event.button !== 0 ||
    event.metaKey ||
    event.ctrlKey ||
    event.shiftKey ||
    event.altKey
  )
    return;
  event.preventDefault();
  go(event.currentTarget.getAttribute("href") ?? BASE);
}
