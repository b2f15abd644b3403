import type { Table } from "../live/table";

/** Ticked rows: some, or all that match but some. */
export class Selection {
  private rows = new Set<number>();
  /** All rows that match the filter are meant, but those in `rows`. */
  all = false;

  has(row: number): boolean {
    return this.rows.has(row) !== this.all;
  }

  toggle(row: number): void {
    if (!this.rows.delete(row)) this.rows.add(row);
  }

  set(row: number, selected: boolean): void {
    if (this.has(row) !== selected) this.toggle(row);
  }

  selectAll(): void {
    this.rows.clear();
    this.all = true;
  }

  clear(): void {
    this.rows.clear();
    this.all = false;
  }

  count(matched: number): number {
    return this.all ? Math.max(0, matched - this.rows.size) : this.rows.size;
  }

  /** The rows named one by one: those meant, or with `all` those left out. */
  named(): number[] {
    return [...this.rows];
  }

  /** Rows have other numbers in a new table; budgets that are gone are forgotten. */
  moveTo(old: Table, table: Table): void {
    if (this.rows.size === 0) return;
    const ids = new Set([...this.rows].map((row) => old.ids[row]!));
    this.rows = new Set();
    for (let row = 0; row < table.rows && this.rows.size < ids.size; row += 1)
      if (ids.has(table.ids[row]!)) this.rows.add(row);
  }
}
