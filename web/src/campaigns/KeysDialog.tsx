import { Dialog } from "../ui/parts";

const KEYS: readonly [string, string][] = [
  ["/", "search; from there ↓ leads to the rows"],
  ["arrows", "move from cell to cell"],
  ["Page Up, Page Down", "a screen of rows"],
  ["Home, End", "first, last column"],
  ["Ctrl Home, Ctrl End", "first, last row"],
  ["Enter", "open the budget; on a header, sort by it"],
  ["Shift Enter on a header", "add it to the sort"],
  ["Alt ← →  on a header", "move the column; with Shift, resize it"],
  ["Space", "select; with Shift, up to here"],
  ["Escape", "clear the selection"],
  ["j, k", "on a budget's page: the next, the previous of the list"],
  ["f", "freeze the figures, or let them continue"],
  ["?", "this list"],
];

export function KeysDialog({ close }: { close: () => void }) {
  return (
    <Dialog title="Keys" close={close}>
      <dl className="keys dialog-body">
        {KEYS.map(([key, does]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
