// What a link says and this page does not understand. Without it more rows are shown than were meant, so nobody may change them unawares.
import { Menu } from "../ui/parts";
import type { Unread } from "../url/view";

/** Why what is for all rows shown is disabled; undefined if it is not. */
export const unreadWords = (unread: readonly Unread[]): string | undefined =>
  unread.length === 0 ? undefined : "First remove what this link says and the page does not understand";

function title(unread: readonly Unread[]): string {
  const what = unread.every(({ part }) => part === "f") ? "filter" : "part";
  return unread.length === 1
    ? `1 ${what} of this link is not understood`
    : `${unread.length} ${what}s of this link are not understood`;
}

const NAMES: Record<string, string> = { f: "filter", sort: "sort" };

export function UnreadChip({ unread, remove }: { unread: readonly Unread[]; remove: () => void }) {
  if (unread.length === 0) return null;
  return (
    <div className="unread" role="alert">
      <Menu
        label={
          <>
            <span aria-hidden="true">▲</span> {title(unread)}
          </>
        }
      >
        <dl className="unread-list">
          {unread.map(({ part, text, expected }, i) => (
            <div key={i}>
              <dt>
                {NAMES[part] ?? part} <code>{text}</code>
              </dt>
              <dd className="quiet">Expected {expected}.</dd>
            </div>
          ))}
        </dl>
        <p>
          More rows are shown than the link meant. Until this is removed or replaced, none can be changed from
          here or saved.
        </p>
      </Menu>
      <button
        type="button"
        className="filter-chip"
        aria-label="remove what is not understood"
        onClick={remove}
      >
        Remove <span aria-hidden="true">✕</span>
      </button>
    </div>
  );
}
