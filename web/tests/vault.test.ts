import { describe, expect, it } from "vitest";
import type { Vault } from "../src/api/types";
import { NO_RATES, ratesOf } from "../src/vault/rates";
import { vault } from "./answers";

const seen = (atMs: number, more: Partial<Vault> = {}) => ({ atMs, vault: { ...vault, ...more } });
const [orders, tags] = vault.keys;

describe("rates of the vault", () => {
  it("are what was counted more, a second", () => {
    const keys = [{ ...orders!, messages: orders!.messages! + 50 }, tags!];
    const rates = ratesOf(
      seen(1_000),
      seen(3_000, { calls: vault.calls + 4, items: vault.items + 100, keys }),
    );
    expect([rates.calls, rates.items]).toEqual([2, 50]);
    expect([...rates.messages]).toEqual([["orders", 25]]);
  });

  it("are not said where two answers are not of the same run, version or moment", () => {
    expect(ratesOf(seen(1_000), seen(1_000))).toBe(NO_RATES);
    expect(ratesOf(seen(1_000), seen(3_000, { calls: 0 }))).toBe(NO_RATES);
    const rotated = [{ ...orders!, latest_version: 4, messages: 1 }];
    expect(ratesOf(seen(1_000), seen(3_000, { keys: rotated })).messages.size).toBe(0);
    const restored = [{ ...orders!, messages: 1 }];
    expect(ratesOf(seen(1_000), seen(3_000, { keys: restored })).messages.size).toBe(0);
    expect(ratesOf(seen(1_000, { keys: [] }), seen(3_000)).messages.size).toBe(0);
  });
});
