import { describe, expect, it } from "vitest";
import { DEFAULT_VIEW, type View, filterText, parseFilter, parseView, viewText } from "../src/url/view";
import { placeOf } from "../src/url/router";

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
    };
    expect(back(view)).toEqual(view);
  });

  it("no sort at all is kept apart from the default", () =>
    expect(back({ ...DEFAULT_VIEW, sort: [] }).sort).toEqual([]));

  it("what another release wrote does not break it", () => {
    const view = parseView(
      "?f=nothing:a;spent:;pace:x..y;status:active;name:~&sort=-spent,-spent,unknown&cols=unknown9,pace*,pace,spend*9999,spend*900&order=sideways&q=%E0%A4%A",
    );
    expect(view.terms).toEqual([{ column: "status", is: "set", codes: ["active"] }]);
    expect(view.sort).toEqual([{ column: "spent", descending: true }]);
    expect(view.columns).toEqual([
      { key: "pace", width: 168, pinned: true },
      { key: "spend", width: 800, pinned: false },
    ]);
    expect(view.order).toBe("hold");
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
    ["/ui/campaign/x", "unknown", ""],
    ["/ui/engine/1", "unknown", ""],
  ])("%s", (path, page, id) => {
    expect(placeOf(path, "")).toEqual({ page, id, search: "" });
  });
});
