// How old the figures are, by the bank's clock. The browser's clock may be wrong by hours, so it only measures how much
// time went by: the least delay ever seen is taken for none.

/** A delta comes at least this often. */
export const TICK_MS = 2_000;
const AMBER_TICKS = 2;
const RED_TICKS = 5;

export type Fresh = "fresh" | "late" | "stale";

export class Freshness {
  asOfMs = NaN;
  private skewMs = Infinity;

  heard(asOfMs: number, nowMs: number): void {
    this.asOfMs = asOfMs;
    this.skewMs = Math.min(this.skewMs, nowMs - asOfMs);
  }

  /** The node's or the browser's clock may have been set: measure anew. */
  restart(): void {
    this.skewMs = Infinity;
  }

  ageMs(nowMs: number): number {
    return Number.isFinite(this.skewMs) ? Math.max(0, nowMs - this.asOfMs - this.skewMs) : NaN;
  }

  /** The node's time, as far as it can be told. */
  nodeMs(nowMs: number): number {
    return Number.isFinite(this.skewMs) ? nowMs - this.skewMs : nowMs;
  }

  state(nowMs: number): Fresh {
    const missed = this.ageMs(nowMs) / TICK_MS;
    if (!(missed < RED_TICKS + 1)) return "stale";
    return missed < AMBER_TICKS + 1 ? "fresh" : "late";
  }
}
