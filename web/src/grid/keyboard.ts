// Where a key leads in the grid: the pattern of the ARIA practices, without a DOM.

/** Position -1 is the header. */
export interface Spot {
  position: number;
  column: number;
}

export interface Extent {
  rows: number;
  columns: number;
  page: number;
}

const clamp = (value: number, least: number, most: number): number => Math.max(least, Math.min(most, value));

/** The next spot, or null for keys that do not move. */
export function move(from: Spot, key: string, ctrl: boolean, { rows, columns, page }: Extent): Spot | null {
  const to = (position: number, column: number): Spot => ({
    position: clamp(position, -1, rows - 1),
    column: clamp(column, 0, columns - 1),
  });
  switch (key) {
    case "ArrowDown":
      return to(from.position + 1, from.column);
    case "ArrowUp":
      return to(from.position - 1, from.column);
    case "ArrowRight":
      return to(from.position, from.column + 1);
    case "ArrowLeft":
      return to(from.position, from.column - 1);
    case "PageDown":
      return to(from.position + page, from.column);
    case "PageUp":
      return to(Math.max(0, from.position - page), from.column);
    case "Home":
      return ctrl ? to(0, 0) : to(from.position, 0);
    case "End":
      return ctrl ? to(rows - 1, columns - 1) : to(from.position, columns - 1);
    default:
      return null;
  }
}
