import { describe, expect, it } from "vitest";
import { columnOf } from "../src/grid/columns";
import {
  DEFAULT_VIEW,
  type View,
  changedView,
  filterText,
  parseFilter,
  parseView,
  viewText,
} from "../src/url/view";
import { addressOf, placeOf } from "../src/url/router";

const back = (view: View): View => parseView(`?${viewText(view)}`);

describe("a view is a link", () => {
  it("the default is no text at all", () => {
    expect(viewText(DEFAULT_VIEW)).toBe("");
    expect(parseView("")).toEqual(DEFAULT_VIEW);
  });

  it("all of it comes back", () => {
    const view: View = {
      query: "söme & text;:,~",
      order: "freeze",
      density: "roomy",
      clock: "utc",
      terms: [
        { column: "status", is: "set", codes: ["active", "limited"] },
        { column: "name", is: "text", text: "a~b;c,d:e%f" },
        { column: "spent", is: "range", least: -1.5, most: null },
        { column: "zone", is: "set", codes: ["America/New_York"] },
      ],
      sort: [
        { column: "pace", descending: false },
        { column: "spent", descending: true },
      ],
      columns: [
        { key: "spent", width: 200, pinned: true },
        { key: "name", width: 250, pinned: false },
      ],
      unread: [],
    };
    expect(back(view)).toEqual(view);
  });

  it("a link of a release that called the order a hold is the default order", () =>
    expect(parseView("?order=hold")).toEqual(DEFAULT_VIEW));

  it("ids stand beside the names", () =>
    expect(DEFAULT_VIEW.columns.map(({ key }) => key).slice(0, 3)).toEqual(["name", "id", "status"]));

  it("no sort at all is kept apart from the default", () =>
    expect(back({ ...DEFAULT_VIEW, sort: [] }).sort).toEqual([]));

  it("what another release wrote does not break it", () => {
    const view = parseView(
      "?f=nothing:a;spent:;pace:x..y;status:active;name:~&sort=-spent,-spent,unknown&cols=unknown9,pace*,pace,spend*9999,spend*900&order=sideways&q=%E0%A4%A",
    );
    expect(view.terms).toEqual([{ column: "status", is: "set", codes: ["active"] }]);
    expect(view.sort).toEqual([{ column: "spent", descending: true }]);
    expect(view.columns).toEqual([
      { key: "pace", width: columnOf("pace")!.width, pinned: true },
      { key: "spend", width: 800, pinned: false },
    ]);
    expect(view.order).toBe("steady");
  });

  it("what of a link is not understood is said, and stays in the address until it is removed", () => {
    const view = parseView("?f=foo:bar;pace:zz;status:activ;unit:USD&sort=nope,-spent&filtre=status:paused");
    expect(view.terms).toEqual([{ column: "unit", is: "set", codes: ["USD"] }]);
    expect(view.unread.map(({ part, text }) => `${part} ${text}`)).toEqual([
      "f foo:bar",
      "f pace:zz",
      "f status:activ",
      "sort nope",
      "filtre status:paused",
    ]);
    expect(view.unread.map(({ expected }) => expected)).toEqual([
      expect.stringMatching(/^one of the columns name, id, status,.* and a colon$/),
      "a range, as pace:0.5..2 or pace:10..",
      expect.stringMatching(/^some of active, limited,/),
      expect.stringMatching(/^one of the columns name,/),
      "one of q, f, filter, sort, cols, order, rows, clock",
    ]);
    expect(back(view)).toEqual(view);
    // Another search, another column: it is still not understood.
    expect(changedView(view, { query: "x" }).unread).toEqual(view.unread);
    expect(viewText({ ...view, unread: [] })).toBe("f=unit%3AUSD&sort=-spent");
  });

  it("a new filter of the column, or a new sort, stands in the place of one that was not understood", () => {
    const view = parseView("?f=foo:bar;pace:zz&sort=nope");
    const term = { column: "pace", is: "range", least: null, most: 1 } as const;
    const filtered = changedView(view, { terms: [term] });
    expect(filtered.unread.map(({ text }) => text)).toEqual(["foo:bar", "nope"]);
    const sorted = changedView(filtered, { sort: [{ column: "id", descending: false }] });
    expect(sorted.unread.map(({ text }) => text)).toEqual(["foo:bar"]);
  });

  it("what the API understands, the page does: ids, and codes that say nothing", () => {
    const view = parseView("?f=id:17,18;reason:none");
    expect([view.terms.length, view.unread]).toEqual([2, []]);
    expect(filterText(view.terms)).toBe("id:17,18;reason:none");
  });

  it("a link with the API's name of the filter is understood, and its slips are said", () => {
    expect(parseView("?filter=status:limited")).toEqual(parseView("?f=status:limited"));
    const both = parseView("?f=unit:USD&filter=status:limited;pace:zz");
    expect(viewText({ ...both, unread: [] })).toBe("f=unit%3AUSD%3Bstatus%3Alimited");
    expect(both.unread.map(({ part, text }) => `${part} ${text}`)).toEqual(["f pace:zz"]);
  });

  it("the filter is the API's", () => {
    expect(filterText(parseFilter("status:limited,error;pace:..0.95"))).toBe(
      "status:limited,error;pace:..0.95",
    );
    expect(filterText([{ column: "name", is: "text", text: "50% off" }])).toBe("name:~50%25%20off");
  });
});

describe("addresses", () => {
  it.each([
    ["/ui/", "campaigns", ""],
    ["/ui", "campaigns", ""],
    ["/ui/campaign/17", "campaign", "17"],
    ["/ui/engine", "engine", ""],
    ["/ui/reports", "reports", ""],
    ["/ui/vault", "vault", ""],
    ["/ui/engine/1", "unknown", ""],
    ["/ui/fix", "fix", ""],
    ["/ui/orders", "orders", ""],
    ["/ui/audit/", "audit", ""],
  ])("%s", (path, page, id) => {
    expect(placeOf(path, "")).toEqual({ page, id, search: "" });
  });
});

describe("the page of a budget", () => {
  it.each([
    ["/ui/campaign/17", "17"],
    ["/ui/campaign/team-42%2Fgpt-5", "team-42/gpt-5"],
    ["/ui/campaign/team-42/gpt-5", "team-42/gpt-5"],
  ])("%s", (path, id) => expect(placeOf(path, "")).toMatchObject({ page: "campaign", id }));
  it.each(["/ui/campaign", "/ui/campaign/a%20b", "/ui/campaign/123456789012345678901"])(
    "%s is none",
    (path) => expect(placeOf(path, "").page).toBe("unknown"),
  );
  it("by a handle that has slashes", () =>
    expect(addressOf("campaign", "team-42/gpt-5")).toBe("/ui/campaign/team-42%2Fgpt-5"));
});
