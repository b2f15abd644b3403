// @vitest-environment happy-dom
// @vitest-environment-options { "url": "http://127.0.0.1/" }
// The page as a whole over a socket that the test holds: what is drawn, said and sent.
import { act } from "react";
import { type Root, createRoot } from "react-dom/client";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { App } from "../src/app";
import { words } from "../src/live/codes";
import { Feed } from "../src/live/feed";
import {
  PATCH_BLOCK,
  GROUP_HEADER,
  BUDGETS_ENTRY,
  CHANGES_ENTRY,
  MESSAGE_HEADER,
  SCHEMA,
  SNAPSHOT_BLOCK,
  STATES_ENTRY,
  TEMPLATE,
} from "../src/live/layout";
import { cellText, exactText } from "../src/money/money";
import { paceText } from "../src/ui/status";
import { goldenBytes, goldenJson } from "./golden";

/** Where a patch says what the first of its two rows has spent: behind its codes. */
const SPENT_AT =
  MESSAGE_HEADER.bytes + PATCH_BLOCK.bytes + GROUP_HEADER.bytes + 2 * CHANGES_ENTRY.bytes + 4 + 4;

const snapshot = goldenJson("snapshot").fields;
/** The golden budgets: a plain one, and one of extremes, whose name comes first. */
const [PLAIN = "", EXTREME = ""] = String(snapshot.names).split("\n");
const STATE = snapshot.states![0]!;

class FakeSocket {
  static readonly OPEN = 1;
  static last: FakeSocket;
  static made = 0;
  readyState = 1;
  binaryType = "";
  sent: DataView[] = [];
  onopen: () => void = () => undefined;
  onmessage: (message: { data: unknown }) => void = () => undefined;
  onclose: (closed: { reason: string }) => void = () => undefined;

  constructor(
    readonly address: string,
    readonly protocols: string[],
  ) {
    FakeSocket.last = this;
    FakeSocket.made += 1;
  }

  send(bytes: ArrayBuffer): void {
    this.sent.push(new DataView(bytes));
  }

  close(): void {
    this.readyState = 3;
  }

  kinds(): number[] {
    return this.sent.map((message) => message.getUint16(MESSAGE_HEADER.templateId, true));
  }
}

const ANSWERS: Record<string, unknown> = { "/v1/me": { name: "local", role: "operate" } };
let root: Root;
let feed: Feed;

async function settle(): Promise<void> {
  await act(async () => void (await vi.advanceTimersByTimeAsync(300)));
}

async function receive(
  name: string,
  sequence: number,
  change: (view: DataView) => void = () => undefined,
): Promise<void> {
  const bytes = goldenBytes(name);
  const view = new DataView(bytes);
  view.setBigUint64(MESSAGE_HEADER.bytes + PATCH_BLOCK.sequence, BigInt(sequence), true);
  change(view);
  act(() => FakeSocket.last.onmessage({ data: bytes }));
  await settle();
}

beforeEach(async () => {
  vi.useFakeTimers({ shouldAdvanceTime: true });
  vi.stubGlobal("IS_REACT_ACT_ENVIRONMENT", true);
  vi.stubGlobal("WebSocket", FakeSocket);
  vi.stubGlobal("fetch", async (path: string) =>
    Response.json(ANSWERS[path] ?? { title: "unknown", detail: path }, {
      status: path in ANSWERS ? 200 : 404,
    }),
  );
  history.replaceState(null, "", "/ui/?sort=name");
  document.body.innerHTML = '<div id="root"></div>';
  feed = new Feed("ws://127.0.0.1/v1/live", () => null);
  feed.start();
  root = createRoot(document.getElementById("root")!);
  act(() => root.render(<App feed={feed} />));
  act(() => FakeSocket.last.onopen());
  await settle();
});

afterEach(() => {
  act(() => root.unmount());
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

const cells = (column: string) => [
  ...document.querySelectorAll<HTMLElement>(`.grid-row:not([hidden]) [data-column="${column}"]`),
];
const texts = (column: string) => cells(column).map((cell) => cell.textContent?.replaceAll("\u202f", " "));
const grid = () => document.querySelector<HTMLElement>('[role="grid"]')!;
const press = async (key: string, options: KeyboardEventInit = {}) => {
  act(
    () =>
      void (document.activeElement ?? document.body).dispatchEvent(
        new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true, ...options }),
      ),
  );
  await settle();
};

describe("the page", () => {
  it("waits for its node in words, then shows campaigns and acknowledges", async () => {
    expect(document.body.textContent).toContain("Waiting for the node");
    await receive("snapshot", 1);
    // The name, and beside it the handle.
    expect(texts("name")).toEqual([`${EXTREME}team-42/gpt-5`, PLAIN]);
    expect(document.querySelector(".hidden-rows")?.textContent).toBe("7 made from templates are not shown");
    expect(texts("spent")).toEqual([
      "≈9 007 199 254 740 992",
      cellText(Number(STATE.spent), "USD").replaceAll("\u202f", " "),
    ]);
    expect(texts("status")[1]).toContain(`${STATE.status}${words(String(STATE.reason))}, `);
    expect(texts("pace")).toEqual(["–", paceText(Number(STATE.windowSpent) / Number(STATE.windowPlanned))]);
    expect(FakeSocket.last.kinds()).toContain(TEMPLATE.acknowledge);
  });

  it("shows the rows that have come, and how many are to come", async () => {
    const part = (firstRow: number) => (view: DataView) => {
      const block = MESSAGE_HEADER.bytes;
      view.setUint32(block + SNAPSHOT_BLOCK.firstRow, firstRow, true);
      view.setUint32(block + SNAPSHOT_BLOCK.rowsTotal, 4, true);
      const states = block + SNAPSHOT_BLOCK.bytes + 2 * GROUP_HEADER.bytes + 2 * BUDGETS_ENTRY.bytes;
      for (const row of [0, 1])
        view.setUint32(states + row * STATES_ENTRY.bytes + STATES_ENTRY.row, firstRow + row, true);
    };
    const csv = () => [...document.querySelectorAll("button")].find((one) => one.textContent === "CSV")!;
    const bar = () => document.querySelector(".status-bar")!.textContent;
    await receive("snapshot", 1, part(0));
    expect([texts("name").length, bar(), csv().disabled]).toEqual([2, "2 of 4 budgets have come", true]);
    expect(document.querySelector(".totals")!.textContent).toBe("");
    expect(document.querySelector(".freshness")!.getAttribute("data-fresh")).toBe("none");
    await receive("snapshot", 2, part(2));
    expect([texts("name").length, csv().disabled]).toEqual([4, false]);
    expect(bar()).toContain("4 budgets");
    expect(document.querySelector(".totals")!.textContent).not.toBe("");
  });

  it("numbers rows and columns for those who do not see them", async () => {
    await receive("snapshot", 1);
    expect([grid().getAttribute("aria-rowcount"), grid().getAttribute("aria-colcount")]).toEqual([
      "3",
      String(document.querySelectorAll('[role="columnheader"]').length),
    ]);
    expect(
      [...document.querySelectorAll(".grid-body .grid-row")].map((row) => row.getAttribute("aria-rowindex")),
    ).toEqual(["2", "3"]);
    expect(document.querySelector('[aria-sort="ascending"]')?.textContent).toContain("Budget");
    expect(document.querySelectorAll('.grid [tabindex="0"]')).toHaveLength(1);
  });

  it("writes a patch into the cells that are there", async () => {
    await receive("snapshot", 1);
    const [cell] = cells("spent");
    await receive("patch", 2, (view) => view.setBigInt64(SPENT_AT, 5_000_000n, true));
    expect(texts("spent")[0]).toBe("5 000 000");
    expect(cells("spent")[0]).toBe(cell);
  });

  it("says exact amounts of the row that is pointed at, and of no other", async () => {
    await receive("snapshot", 1);
    const exact = () => cells("spent").map((cell) => cell.title.replaceAll("\u202f", " "));
    expect(exact()).toEqual(["", ""]);
    cells("name")[1]!.dispatchEvent(new Event("pointerover", { bubbles: true }));
    expect(exact()).toEqual(["", exactText(BigInt(STATE.spent!), "USD").replaceAll("\u202f", " ")]);
    cells("name")[0]!.dispatchEvent(new Event("pointerover", { bubbles: true }));
    expect(exact()).toEqual(["9 007 199 254 740 992 count, rounded; exact in its page", ""]);
    await receive("patch", 2, (view) => view.setBigInt64(SPENT_AT, 5_000_000n, true));
    expect(exact()).toEqual(["5 000 000 count", ""]);
  });

  it("asks again after a gap, and keeps its figures", async () => {
    await receive("snapshot", 1);
    await receive("patch", 5);
    expect(FakeSocket.last.kinds().at(-1)).toBe(TEMPLATE.resync);
    expect(texts("name")).toHaveLength(2);
  });

  it("is moved through by keys, selects by space, offers what can be done", async () => {
    await receive("snapshot", 1);
    act(() => cells("name")[0]!.focus());
    await press("ArrowDown");
    expect(document.activeElement).toBe(cells("name")[1]);
    await press(" ");
    expect(document.activeElement?.parentElement?.getAttribute("aria-selected")).toBe("true");
    expect(document.querySelector(".selection-bar")?.textContent).toContain("1 selected");
    expect(
      [...document.querySelectorAll<HTMLButtonElement>(".selection-bar .button")].some(
        (button) => button.disabled,
      ),
    ).toBe(false);
    await press("ArrowUp");
    await press("ArrowUp");
    expect(document.activeElement?.getAttribute("role")).toBe("columnheader");
  });

  it("opens a campaign with Enter, and says when it is not there", async () => {
    await import("../src/campaign/CampaignPage");
    await receive("snapshot", 1);
    act(() => cells("name")[1]!.focus());
    await press("ArrowDown");
    await press("Enter");
    expect(location.pathname).toBe("/ui/campaign/17");
    await settle();
    expect(document.body.textContent).toContain("There is no budget 17");
  });

  it("freezes, counts what it does not show, and goes on", async () => {
    await receive("snapshot", 1);
    await press("f");
    await receive("patch", 2, (view) => view.setBigInt64(SPENT_AT, 5_000_000n, true));
    expect(texts("spent")[0]).toBe("≈9 007 199 254 740 992");
    expect(document.querySelector(".notice")?.textContent).toContain("2 changes since");
    await press("f");
    expect(texts("spent")[0]).toBe("5 000 000");
  });

  it("comes back after a lost connection without a blank table", async () => {
    await receive("snapshot", 1);
    const made = FakeSocket.made;
    act(() => FakeSocket.last.onclose({ reason: "" }));
    expect(document.querySelector(".freshness")?.textContent).toContain("disconnected");
    expect(texts("name")).toHaveLength(2);
    await act(async () => void (await vi.advanceTimersByTimeAsync(1_000)));
    expect(FakeSocket.made).toBe(made + 1);
    act(() => FakeSocket.last.onopen());
    await receive("snapshot", 1);
    expect(document.querySelector(".freshness")?.textContent).toContain("live");
  });

  it("stays away from a node of another release", async () => {
    const made = FakeSocket.made;
    await receive("snapshot", 1, (view) => view.setUint16(MESSAGE_HEADER.version, SCHEMA.version - 1, true));
    act(() => FakeSocket.last.onclose({ reason: "" }));
    await act(async () => void (await vi.advanceTimersByTimeAsync(20_000)));
    expect(FakeSocket.made).toBe(made);
    expect(document.body.textContent).toContain(`this page ${SCHEMA.id} version ${SCHEMA.version}`);
  });

  it("searches and says so in its address", async () => {
    await receive("snapshot", 1);
    const field = document.querySelector<HTMLInputElement>('input[type="search"]')!;
    await act(async () => {
      Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value")!.set!.call(
        field,
        PLAIN.slice(0, 6),
      );
      field.dispatchEvent(new Event("input", { bubbles: true }));
    });
    await settle();
    expect(texts("name")).toEqual([PLAIN]);
    expect(location.search).toContain("q=");
  });
});
