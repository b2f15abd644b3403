import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";

const css = readFileSync(join(import.meta.dirname, "../src/ui/tokens.css"), "utf8");
const TEXT_LEAST = 4.5;

function tokensOf(selector: string): Record<string, string> {
  const at = css.indexOf(`${selector} {`);
  return Object.fromEntries(
    [...css.slice(at, css.indexOf("}", at)).matchAll(/--([\w-]+): (#[0-9a-f]{6});/g)].map(
      ([, name, value]) => [name, value],
    ),
  );
}

function luminance(hex: string): number {
  const [r, g, b] = [1, 3, 5]
    .map((at) => Number.parseInt(hex.slice(at, at + 2), 16) / 255)
    .map((part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r! + 0.7152 * g! + 0.0722 * b!;
}

function contrast(a: string, b: string): number {
  const [dark, light] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (light! + 0.05) / (dark! + 0.05);
}

describe.each([
  ["light", ":root"],
  ["dark", ':root[data-theme="dark"]'],
])("contrast, %s", (_, selector) => {
  const tokens = tokensOf(selector);
  const grounds = ["paper", "surface", "raised", "sunk", "hover", "chosen"];
  const pairs = [
    ...["blue", "sky", "green", "orange", "red", "purple", "grey"].map((hue) => [hue, `${hue}-tint`]),
    ...grounds.flatMap((ground) => [
      ["ink", ground],
      ["quiet", ground],
    ]),
    ["accent", "surface"],
    ["accent", "paper"],
    ["accent-ink", "accent"],
    ...["orange", "red", "green", "purple"].map((hue) => [hue, "surface"]),
  ];
  it.each(pairs)("%s on %s", (text, ground) =>
    expect(contrast(tokens[text!]!, tokens[ground!]!)).toBeGreaterThanOrEqual(TEXT_LEAST),
  );
});

it("dark by system and by switch are the same", () => {
  const system = css.slice(css.indexOf(":root:not([data-theme])"));
  for (const [name, value] of Object.entries(tokensOf(':root[data-theme="dark"]')))
    expect(system).toContain(`--${name}: ${value};`);
});
