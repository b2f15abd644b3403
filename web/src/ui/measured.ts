/** Tells observers how long something took. The entry is not kept: a page that is open for days must not grow. */
export function measured(name: "weir:apply" | "weir:render", fromMs: number): void {
  performance.measure(name, { start: fromMs });
  performance.clearMeasures(name);
}
