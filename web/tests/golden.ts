import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

// Paths, not URLs: a test with a made-up browser has another URL class.
const folder = join(dirname(fileURLToPath(import.meta.url)), "../../schema/golden/live");
const path = (name: string, extension: string): string => join(folder, `${name}.${extension}`);

/** The bytes of a message, as the node writes them. */
export function goldenBytes(name: string): ArrayBuffer {
  const text = readFileSync(path(name, "hex"), "utf8");
  const hex = text
    .split("\n")
    .filter((line) => !line.startsWith("#"))
    .join("")
    .replace(/\s/g, "");
  return Uint8Array.from(hex.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16)).buffer;
}

/** Fields by the names of the schema; integers that JavaScript would round are texts. */
export type Values = Record<string, string | number>;

export interface Golden {
  message: string;
  templateId: number;
  fields: Values & {
    budgets?: Values[];
    states?: Values[];
    sparks?: Values[];
    steps?: Values[];
    rows?: Values[];
  };
}

export const goldenJson = (name: string): Golden =>
  JSON.parse(readFileSync(path(name, "json"), "utf8")) as Golden;
