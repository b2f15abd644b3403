// Counts and totals of the rows that match. Units are never added to each other.
import { FLAG, STATUSES } from "../live/codes";
import type { Table } from "../live/table";
import { Sum } from "../money/money";

export interface Total {
  unit: string;
  rows: number;
  zones: number;
  spent: bigint;
  limit: bigint;
  available: bigint;
  spendMinute: bigint;
}

export interface Tally {
  statuses: readonly number[];
  debts: number;
  totals: readonly Total[];
}

/** A text column as small numbers: looking a text up 50,000 times a tick costs more than the sums. */
interface Coded {
  texts: string[];
  code: Uint16Array;
}

function coded(column: readonly string[]): Coded {
  const codes = new Map<string, number>();
  const code = Uint16Array.from(column, (text) => {
    const known = codes.get(text) ?? codes.size;
    codes.set(text, known);
    return known;
  });
  return { texts: [...codes.keys()], code };
}

const codings = new WeakMap<readonly string[], Coded>();

function codingOf(column: readonly string[]): Coded {
  const known = codings.get(column) ?? coded(column);
  codings.set(column, known);
  return known;
}

class UnitSums {
  rows = 0;
  readonly zones: Uint8Array;
  readonly spent = new Sum();
  readonly limit = new Sum();
  readonly available = new Sum();
  readonly spendMinute = new Sum();

  constructor(zones: number) {
    this.zones = new Uint8Array(zones);
  }

  total(unit: string): Total {
    const zones = this.zones.reduce((sum, seen) => sum + seen, 0);
    return {
      unit,
      rows: this.rows,
      zones,
      spent: this.spent.total(),
      limit: this.limit.total(),
      available: this.available.total(),
      spendMinute: this.spendMinute.total(),
    };
  }
}

export function tally(table: Table, rows: Uint32Array): Tally {
  const [units, zones] = [codingOf(table.units), codingOf(table.zones)];
  const sums = units.texts.map(() => new UnitSums(zones.texts.length));
  const statuses = STATUSES.map(() => 0);
  let debts = 0;
  for (const row of rows) {
    statuses[table.status[row]!]! += 1;
    if ((table.flags[row]! & FLAG.debt) !== 0) debts += 1;
    const unit = sums[units.code[row]!]!;
    unit.rows += 1;
    unit.zones[zones.code[row]!] = 1;
    unit.spent.add(table.spent[row]!);
    unit.limit.add(table.limit[row]!);
    unit.available.add(table.available[row]!);
    unit.spendMinute.add(table.spendMinute[row]!);
  }
  const totals = sums.flatMap((sum, i) => (sum.rows === 0 ? [] : [sum.total(units.texts[i]!)]));
  return { statuses, debts, totals: totals.sort((a, b) => b.rows - a.rows) };
}
