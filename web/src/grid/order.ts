// Which rows a view shows and in which order, kept up to date by looking at rows that changed only.
import type { Table } from "../live/table";
import { filterText, sortText, type View } from "../url/view";
import { Matches } from "./filter";
import { Sorted } from "./sort";
import { type Counts, Tally } from "./totals";

type Wanted = Pick<View, "query" | "terms" | "sort">;

export class Order {
  private readonly sort: string;
  private readonly filter: string;
  private readonly sorted: Sorted;
  private readonly matches: Matches;
  private readonly tally: Tally;
  /** Versions of the rows as they were last looked at. */
  private readonly seen: Uint32Array;
  private revision: number;
  private shown: Uint32Array | null = null;

  /** What `old` knows of the same table is taken over: a search does not sort, a sort does not search. */
  constructor(
    private readonly table: Table,
    { query, terms, sort }: Wanted,
    old: Order | null,
  ) {
    const known = old?.table === table ? old : null;
    known?.update();
    this.sort = sortText(sort);
    this.filter = `${query}\n${filterText(terms)}`;
    this.sorted = known?.sort === this.sort ? known.sorted : new Sorted(table, sort);
    this.matches = known?.filter === this.filter ? known.matches : new Matches(table, query, terms);
    this.tally = known?.tally ?? new Tally(table);
    this.seen = known?.seen ?? table.version.slice();
    this.revision = table.revision;
  }

  /** The rows as they stand now. The same array if nothing changed. */
  rows(): Uint32Array {
    this.update();
    this.shown ??= this.matches.of(this.sorted.rows);
    return this.shown;
  }

  /** Of all rows that match. */
  counts(): Counts {
    this.update();
    return this.tally.update(this.matches.passing);
  }

  private update(): void {
    if (this.revision === this.table.revision) return;
    this.revision = this.table.revision;
    const changed = this.changed();
    if (changed.length === 0) return;
    this.sorted.update(changed);
    this.matches.update(changed);
    this.shown = null;
  }

  private changed(): Uint32Array {
    const { seen } = this;
    const { rows, version } = this.table;
    const changed = new Uint32Array(rows);
    let count = 0;
    for (let row = 0; row < rows; row += 1) {
      if (version[row] === seen[row]) continue;
      seen[row] = version[row]!;
      changed[count++] = row;
    }
    return changed.subarray(0, count);
  }
}
