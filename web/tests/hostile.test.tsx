// @vitest-environment happy-dom
// What strangers wrote, on the pages that show it: creatives, names, reasons of another release, huge and odd texts.
import { act } from "react";
import { createRoot } from "react-dom/client";
import { beforeAll, describe, expect, it } from "vitest";
import type { Budget } from "../src/api/types";
import { Configuration } from "../src/campaign/FileLine";
import { parsed, visible } from "../src/campaign/text";
import { sentence } from "../src/live/codes";
import { statusOf } from "../src/ui/status";
import { csvChunks } from "../src/campaigns/csv";
import * as answers from "./answers";
import { tableOf } from "./made";

const MARKUP = `<script>globalThis.owned = 1</script><img src=x onerror="globalThis.owned = 1">"'&lt;</details></pre>`;

beforeAll(() => {
  (globalThis as { IS_REACT_ACT_ENVIRONMENT?: boolean }).IS_REACT_ACT_ENVIRONMENT = true;
});

async function drawn(budget: Budget): Promise<HTMLElement> {
  const house = document.createElement("div");
  document.body.append(house);
  await act(async () => createRoot(house).render(<Configuration budget={budget} />));
  return house;
}

const withLine = (line: unknown, more: Partial<NonNullable<Budget["file"]>> = {}): Budget => ({
  ...answers.budget,
  file: {
    line: 1,
    text: typeof line === "string" ? line : JSON.stringify(line),
    problem: null,
    changed: [],
    ...more,
  },
});

describe("the line of the budgets file", () => {
  it("is shown whole, field by field, with what was changed on top", async () => {
    const text = (await drawn(answers.budget)).textContent ?? "";
    for (const words of [
      "line 17 of the budgets file",
      "2.50",
      "DEU, AUT",
      "9000.00",
      "10000.00",
      "changed here",
      "id c1",
    ])
      expect(text).toContain(words);
  });

  it("executes nothing of a creative: markup is text, in every place", async () => {
    const creative = {
      id: MARKUP,
      format: MARKUP,
      markup: MARKUP.repeat(40),
      vast: { url: "javascript:alert(1)", [MARKUP]: [MARKUP] },
    };
    const house = await drawn(
      withLine(
        { id: 1, name: MARKUP, bid: MARKUP, creatives: [creative], [MARKUP]: MARKUP },
        {
          changed: [{ field: MARKUP, in_file: MARKUP, in_force: { a: MARKUP } }],
          problem: MARKUP,
        },
      ),
    );
    expect(house.querySelectorAll("script, img, iframe, object, embed, a, style, link, svg")).toHaveLength(0);
    const attributes = [...house.querySelectorAll("*")].flatMap((one) => one.getAttributeNames());
    expect(attributes.filter((name) => name.startsWith("on") || name === "href" || name === "src")).toEqual(
      [],
    );
    expect((globalThis as { owned?: number }).owned).toBeUndefined();
    expect(house.textContent).toContain(MARKUP);
  });

  it("shows characters that turn or hide text as their numbers", async () => {
    const house = await drawn(withLine({ id: 1, name: "good\u202elive\u0007\u200b", "\u2066x": "y" }));
    expect(house.textContent).toContain("good⟨U+202E⟩live⟨U+0007⟩⟨U+200B⟩");
    expect(house.textContent).not.toMatch(/[\u202e\u0007\u200b\u2066]/);
    expect(visible("Zürich → 東京 😀")).toBe("Zürich → 東京 😀");
  });

  it("folds what is long and stops where it is deep", async () => {
    let deep: unknown = 1;
    for (let i = 0; i < 2_000; i++) deep = { deep };
    const house = await drawn(withLine({ id: 1, markup: "x".repeat(60_000), deep }));
    expect(house.querySelector("details summary")?.textContent).toContain("60\u202f000 characters");
    expect(house.querySelectorAll("*").length).toBeLessThan(200);
  });

  it("is shown as text where it is no JSON, and what holds beside it", async () => {
    for (const line of ["", "[1,2]", '{"id":1', "null", '"text"']) {
      const house = await drawn(withLine(line));
      expect(house.textContent, line).toContain("10000.00");
      expect(house.textContent, line).toContain(line);
    }
  });

  it("does not follow names that objects have by themselves", async () => {
    const house = await drawn(withLine('{"__proto__":{"limit":"1"},"constructor":"c","toString":"t"}'));
    for (const words of ["proto", "constructor", "toString"]) expect(house.textContent).toContain(words);
    expect(house.textContent).not.toContain("changed here");
  });

  it("says why it cannot be shown, and shows what holds", async () => {
    const problem = "budgets.jsonl has changed since line 17 was read";
    const house = await drawn(withLine("", { text: null, problem }));
    expect(house.textContent).toContain(problem);
    expect(house.textContent).toContain("10000.00");
  });

  it("may be missing: a budget made here, a table, or a node of an earlier release", async () => {
    const { file: _, ...earlier } = answers.budget;
    for (const budget of [{ ...answers.budget, file: null }, earlier as Budget])
      expect((await drawn(budget)).textContent).toContain("no line of its own");
  });
});

describe("words of strangers", () => {
  it("codes of a newer node, in a frame that an old page understands otherwise, break nothing", () => {
    const table = tableOf([{ name: "<img onerror=alert(1)>", status: 99 }]);
    table.reason[0] = 200;
    table.topRefusal[0] = 250;
    const text = Array.from(csvChunks(table, Uint32Array.of(0), ["name", "status"]), (chunk) =>
      new TextDecoder().decode(chunk),
    ).join("");
    expect(text).toContain("<img onerror=alert(1)>");
    expect(text.split("\r\n")).toHaveLength(3);
  });

  it("numbers keep their digits where the browser tells them", () => {
    const read = parsed('{"id":1}') as { id: { text: string } };
    expect(read.id.text).toBe("1");
    expect(parsed("{")).toBeUndefined();
  });

  it("a status or a reason of a newer node is shown as it is, and looks like trouble", () => {
    expect(statusOf("of_tomorrow")).toBe("error");
    expect(sentence("of_tomorrow")).toBe("of tomorrow");
    expect(sentence("<b>")).toBe("<b>");
    expect(sentence("__proto__")).toBe("  proto  ");
  });
});
