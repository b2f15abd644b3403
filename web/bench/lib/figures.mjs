// Samples to figures, figures to a table. A row of the table:
//   { quantity, unit, target: { median, p95, most }, samples, naive, differences }
// `samples` of the dashboard and of the naive page; none means that it could not be measured, and the table says so. Samples that are
// `differences` of two noisy figures meet a target for their median, or miss it, only where what is known of the median says so.

const sorted = (samples) => [...samples].sort((a, b) => a - b);

/** The value that this share of the samples is not above; nearest rank. */
export function quantile(samples, share) {
  const order = sorted(samples);
  return order[Math.max(0, Math.ceil(order.length * share) - 1)];
}

export function median(samples) {
  const order = sorted(samples);
  const middle = order.length >> 1;
  return order.length % 2 === 1 ? order[middle] : (order[middle - 1] + order[middle]) / 2;
}

/** Where the median of what was sampled lies with 95 % confidence, by order statistics; the whole range where samples are few. */
export function medianInterval(samples) {
  const order = sorted(samples);
  const count = order.length;
  // How likely exactly so many samples are below the median, and at most so many: tosses of a fair coin.
  let skipped = 0;
  let term = 0.5 ** count;
  let outside = term;
  for (;;) {
    term *= (count - skipped) / (skipped + 1);
    if (2 * (outside + term) > 0.05) return [order[skipped], order[count - 1 - skipped]];
    outside += term;
    skipped += 1;
  }
}

const TESTS = {
  median: (samples) => median(samples),
  p95: (samples) => quantile(samples, 0.95),
  most: (samples) => Math.max(...samples),
};

/** "ok", "MISSED", "CANNOT TELL" or "NOT MEASURED"; without a target "". `slack` multiplies targets: machines that others share are slower. */
export function verdict({ samples, target = {}, differences = false }, slack = 1) {
  if (samples.length === 0) return "NOT MEASURED";
  const limits = Object.entries(target);
  if (limits.length === 0) return "";
  if (differences) {
    const [low, high] = medianInterval(samples);
    if (high <= target.median * slack) return "ok";
    return low > target.median * slack ? "MISSED" : `CANNOT TELL: ${digits(low)} to ${digits(high)}, 95 %`;
  }
  return limits.every(([name, limit]) => TESTS[name](samples) <= limit * slack) ? "ok" : "MISSED";
}

const digits = (value) =>
  value === undefined || !Number.isFinite(value)
    ? "–"
    : Math.abs(value) >= 100
      ? value.toFixed(0)
      : Math.abs(value) >= 10
        ? value.toFixed(1)
        : value.toFixed(2);

function targetText({ target = {}, unit }) {
  const words = {
    median: (limit) => `${limit}`,
    p95: (limit) => `p95 ${limit}`,
    most: (limit) => `max ${limit}`,
  };
  const text = Object.entries(target)
    .map(([name, limit]) => words[name](limit))
    .join(", ");
  return text === "" ? "–" : `<= ${text} ${unit}`;
}

/** What a row says, for people and for a file. */
export function figuresOf(row, slack) {
  const { samples, naive = [] } = row;
  const some = samples.length > 0;
  return {
    quantity: row.quantity,
    unit: row.unit,
    target: row.target ?? null,
    samples: samples.length,
    median: some ? median(samples) : null,
    p95: some ? quantile(samples, 0.95) : null,
    max: some ? Math.max(...samples) : null,
    naive: naive.length > 0 ? median(naive) : null,
    ratio: some && naive.length > 0 ? median(naive) / median(samples) : null,
    verdict: verdict(row, slack),
    why: row.why ?? null,
  };
}

const HEAD = ["quantity", "target", "median", "p95", "naive", "ratio", "n", ""];

export function print(rows, slack) {
  const lines = rows.map((row) => {
    const figures = figuresOf(row, slack);
    const value = (number) => (number === null ? "–" : `${digits(number)} ${row.unit}`.trim());
    return [
      row.quantity,
      targetText(row),
      value(figures.median),
      value(figures.p95),
      value(figures.naive),
      figures.ratio === null ? "–" : `${digits(figures.ratio)} x`,
      String(figures.samples),
      figures.verdict + (row.why === undefined ? "" : `: ${row.why}`),
    ];
  });
  const widths = HEAD.map((head, i) => Math.max(head.length, ...lines.map((line) => line[i].length)));
  const text = (line) =>
    line
      .map((cell, i) =>
        i === 0 || i === HEAD.length - 1 ? cell.padEnd(widths[i]) : cell.padStart(widths[i]),
      )
      .join("  ")
      .trimEnd();
  console.log([HEAD, widths.map((width) => "-".repeat(width)), ...lines].map(text).join("\n"));
}
