import { describe, expect, it } from "vitest";
import {
  Sum,
  baseText,
  cellText,
  decimalText,
  exactText,
  moneyText,
  parseAmount,
  plainAmount,
  shortText,
} from "../src/money/money";
import { numbers } from "./made";

const thin = (text: string) => text.replaceAll("\u202f", " ");

describe("text of amounts", () => {
  it("of a currency in nanos", () => {
    expect(cellText(1_999_999_999, "USDn")).toBe("1.99");
    expect(cellText(1_999_999_999, "JPYn")).toBe("1");
    expect(exactText(5_400n, "USDn")).toBe("0.000005400 USDn");
    expect(thin(shortText(657_599_999_999_999n, "USDn"))).toBe("657.5 k");
  });
  it("in short, cut as well", () => {
    const short = (amount: bigint | number, unit: string) => thin(shortText(amount, unit));
    expect([
      short(657_599_999_999_999n, "USD"),
      short(17_199_000_000n, "USD"),
      short(5_672_990_000n, "USD"),
      short(12_500_000, "USD"),
    ]).toEqual(["657.5 M", "17.1 k", "5 672", "12.50"]);
    // As finance writes them: bn, and never thousands of thousands.
    expect([short(10_199_000_000_000_000n, "USD"), short(4_527_399_000_000n, "USD")]).toEqual([
      "10.1 bn",
      "4.52 M",
    ]);
    expect([short(-17_199_000_000n, "USD"), short(12_345_678, "count"), short(NaN, "USD")]).toEqual([
      "−17.1 k",
      "12.3 M",
      "–",
    ]);
  });
  it("cuts, never rounds up", () => {
    expect(cellText(1_999_999, "USD")).toBe("1.99");
    expect(cellText(999, "USD")).toBe("0.00");
    expect(cellText(-1_250_000, "USD")).toBe("−1.25");
    expect(thin(cellText(1_234_567_890_000, "JPY"))).toBe("1 234 567");
    expect(thin(cellText(1_234_567, "count"))).toBe("1 234 567");
    expect(cellText(NaN, "USD")).toBe("–");
  });
  it("rounds up what is spent, so that it adds up with what remains", () => {
    const limit = 10_000_000;
    for (const spent of [23_500, 1, 9_999, 10_000, 9_999_999]) {
      const [up, rest] = [cellText(spent, "USD", "up"), cellText(limit - spent, "USD")];
      expect(Math.round(Number(up) * 100) + Math.round(Number(rest) * 100), `${spent}`).toBe(1_000);
    }
    expect(cellText(9_999_999, "USD", "up")).toBe("10.00");
    expect(cellText(-1_999_999, "USD", "up")).toBe("−1.99");
    expect(thin(cellText(1_234_567_890_001, "JPY", "up"))).toBe("1 234 568");
    expect(cellText(7, "count", "up")).toBe("7");
  });
  it("is written and read as the node does", () => {
    for (const [amount, unit, text] of [
      [1_250_000n, "USD", "1.25"],
      [-1n, "USD", "-0.000001"],
      [5_000_000n, "JPY", "5.00"],
      [51n, "USDn", "0.000000051"],
      [12n, "count", "12"],
      [0n, "EUR", "0.00"],
    ] as const) {
      expect(decimalText(amount, unit)).toBe(text);
      expect(baseText(text, unit)).toBe(amount.toString());
    }
    expect(decimalText(NaN, "USD")).toBe("");
  });
  it("has every digit where it counts", () => {
    expect(thin(exactText(9_223_372_036_854_775_807n, "USD"))).toBe("9 223 372 036 854.775807 USD");
    expect(thin(exactText(-9_223_372_036_854_775_808n, "EUR"))).toBe("−9 223 372 036 854.775808 EUR");
    expect(exactText(null, "USD")).toBe("–");
    expect(moneyText(1_005_000n, "KWD")).toBe("1.005 KWD");
  });
});

describe("typed amounts", () => {
  it.each([
    ["1250", "USD", 1_250_000_000n],
    ["0.000001", "USD", 1n],
    [" 1 250.5 ", "EUR", 1_250_500_000n],
    ["-3", "USD", -3_000_000n],
    ["500", "count", 500n],
    ["900000000000.123456", "USD", 900_000_000_000_123_456n],
    ["0.0000054", "USDn", 5_400n],
    ["900000000.123456789", "USDn", 900_000_000_123_456_789n],
  ])("%s %s", (text, unit, amount) => {
    expect(parseAmount(text, unit)).toBe(amount);
  });
  it.each([
    ["", "USD"],
    ["1,5", "USD"],
    ["1.0000001", "USD"],
    ["1.0000000001", "USDn"],
    ["1e6", "USD"],
    ["1.5", "count"],
    ["0x10", "USD"],
    ["--1", "USD"],
    ["1.", "USD"],
  ])("refuses “%s” %s", (text, unit) => {
    expect(parseAmount(text, unit)).toBeNull();
  });
  it("what is written is read back, exactly", () => {
    const random = numbers(3);
    for (let i = 0; i < 2_000; i += 1) {
      const amount =
        BigInt(Math.floor(random() * 2 ** 52)) *
        BigInt(Math.floor(random() * 100)) *
        (random() > 0.5 ? 1n : -1n);
      for (const unit of ["USD", "USDn", "JPYn", "count"])
        expect(parseAmount(plainAmount(amount, unit), unit)).toBe(amount);
    }
  });
});

describe("sums", () => {
  it("of many large amounts stay exact", () => {
    const sum = new Sum();
    let exact = 0n;
    const random = numbers(5);
    for (let i = 0; i < 50_000; i += 1) {
      const amount = Math.floor((random() - 0.3) * 2 ** 53);
      sum.add(amount);
      exact += BigInt(amount);
    }
    expect(sum.total()).toBe(exact);
  });
});
