// Which rows a view shows and in which order, kept up to date by looking at rows that changed only, and only at what changed of them.
import { type Bits, type Table } from "../live/table";
import { filterText, sortText, type View } from "../url/view";
import { Matches } from "./filter";
import { Sorted } from "./sort";
import { columnOf } from "./columns";
import { type Counts, SUMMED_BITS, Tally } from "./totals";

type Wanted = Pick<View, "query" | "terms" | "sort">;

export class Order {
  private readonly sort: string;
  private readonly filter: string;
  private readonly sorted: Sorted;
  private readonly matches: Matches;
  private readonly tally: Tally;
  /** What rows are sorted by, and filtered by. */
  private readonly sortBits: Bits;
  private readonly filterBits: Bits;
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
    this.sortBits = bitsOfColumns(sort);
    this.filterBits = bitsOfColumns(terms);
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

  /** Looks at rows that changed: those whose sort key did are moved, those that a filter looks at are judged, those with sums counted. */
  private update(): void {
    if (this.revision === this.table.revision) return;
    this.revision = this.table.revision;
    const { changed } = this.table;
    changed.sort();
    const [moved, judged] = [changed.with(this.sortBits), changed.with(this.filterBits)];
    if (moved.length > 0) this.sorted.update(moved);
    const passes = judged.length > 0 && this.matches.update(judged);
    this.tally.changed(changed.with(passes ? union(SUMMED_BITS, this.filterBits) : SUMMED_BITS));
    if (moved.length > 0 || passes) this.shown = null;
    changed.clear();
  }
}

const NO_BITS: Bits = { low: 0, high: 0 };
const union = (a: Bits, b: Bits): Bits => ({ low: a.low | b.low, high: a.high | b.high });
const bitsOfColumns = (of: readonly { column: string }[]): Bits =>
  of.reduce((bits, { column }) => union(bits, columnOf(column)?.bits ?? NO_BITS), NO_BITS);
