// On a campaign's page: where it stands in the list that it was opened from, and the ones beside it.
import { useEffect, useMemo, useState } from "react";
import type { Feed } from "../live/feed";
import { announce } from "../ui/announce";
import { useKeys } from "../ui/keys";
import { count } from "../ui/numbers";
import type { Table } from "../live/table";
import { isHandle } from "../url/handle";
import { listOf, placeIn, see } from "../url/list";
import { addressOf, go, isPlain, kept } from "../url/router";

/** The table, once there is one: after a reload the list is made of it. */
function useTable(feed: Feed) {
  const [table, setTable] = useState(feed.table);
  useEffect(() => feed.onChange((change) => change === "table" && setTable(feed.table)), [feed]);
  return table;
}

/** The id behind a handle, as far as the table knows. */
function idOf(table: Table | null, name: string): string {
  const row = isHandle(name) ? (table?.handles.indexOf(name) ?? -1) : -1;
  return row < 0 ? name : table!.ids[row]!;
}

/** Nothing where the page was not opened from a list. In the history they are one step: Back leads to the list. */
export function Neighbours({ feed, id: name }: { feed: Feed; id: string }) {
  const table = useTable(feed);
  const id = useMemo(() => idOf(table, name), [table, name]);
  const { list: text } = kept();
  const list = useMemo(() => (text === undefined ? null : listOf(text, table)), [text, table]);
  const place = useMemo(() => (list === null ? -1 : placeIn(list, id)), [list, id]);
  const idAt = (at: number) => (list === null || place < 0 ? undefined : list.ids[list.order[at] ?? -1]);
  const [previous, next] = [idAt(place - 1), idAt(place + 1)];
  const move = (to: string | undefined) => to !== undefined && go(addressOf("campaign", to), true);
  useKeys({ j: () => move(next), k: () => move(previous) });
  const words = list === null || place < 0 ? "" : `${count(place + 1)} of ${count(list.order.length)}`;
  useEffect(() => see(id), [id]);
  useEffect(() => void (words !== "" && announce(words)), [words]);
  if (words === "") return null;
  const link = (to: string | undefined, word: string, key: string) => (
    <a
      className="button button-quiet"
      href={to === undefined ? undefined : addressOf("campaign", to)}
      aria-disabled={to === undefined}
      aria-keyshortcuts={key}
      onClick={(event) => {
        if (!isPlain(event)) return;
        event.preventDefault();
        move(to);
      }}
    >
      {word} <kbd>{key}</kbd>
    </a>
  );
  return (
    <nav className="neighbours" aria-label="In the list">
      <span className="quiet figures">{words}</span>
      {link(previous, "Previous", "k")}
      {link(next, "Next", "j")}
    </nav>
  );
}
