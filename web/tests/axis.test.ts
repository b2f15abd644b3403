import { describe, expect, it } from "vitest";
import { amountText, firstShown, hasFigures, tickTexts } from "../src/ui/axis";

const day = (known: number, steps = 100): (number | null)[] =>
  Array.from({ length: steps }, (_, i) => (i >= steps - known ? 1 : null));

describe("a chart's window", () => {
  it("begins at the first figure while less than a fifth of it is known", () => {
    expect([19, 20, 100].map((known) => firstShown([day(known)]))).toEqual([81, 0, 0]);
    // A plan that is known for longer than the spend.
    expect(firstShown([day(3), day(10)])).toBe(90);
  });
  it("keeps two points, so that the axis has a width, and all of it where nothing is known", () => {
    expect([firstShown([day(1)]), firstShown([day(0)]), firstShown([[]]), firstShown([])]).toEqual([
      98, 0, 0, 0,
    ]);
  });
  it("has no figures where all are nothing", () => {
    expect([[[]], [[null, 0]], [[null], [0]], [[0], [0.01]]].map(hasFigures)).toEqual([
      false,
      false,
      false,
      true,
    ]);
  });
});

describe("the numbers of an axis", () => {
  it.each([
    [[0, 0.005, 0.01], 0.005, ["0", "0.005", "0.010"]],
    [[0, 0.0025], 0.0025, ["0", "0.0025"]],
    [[0, 2.5, 5], 2.5, ["0", "2.5", "5.0"]],
    [[0, 500, 1_000], 500, ["0", "500", "1\u202f000"]],
    [[-50_000, 0, 100_000], 50_000, ["−50 k", "0", "100 k"]],
    [[1_500_000, 2_000_000], 500_000, ["1.5 M", "2.0 M"]],
    [[0, 10e9], 5e9, ["0", "10 bn"]],
    [[0, 1], 1 / 3, ["0", "1.000000"]],
  ])("%j by %d", (values, step, texts) => expect(tickTexts(values, step)).toEqual(texts));
  it("under the pointer", () =>
    expect([0, 0.000_123_4, 1.005, 99_999.5, 250_000, 10.1e9].map(amountText)).toEqual([
      "0",
      "0.000123",
      "1.01",
      "99\u202f999.5",
      "250 k",
      "10.1 bn",
    ]));
});
