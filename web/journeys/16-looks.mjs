import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { GROUP } from "./lib/budgets.mjs";
import { loaded, ready } from "./lib/grid.mjs";
import { ordersShown, withOrders } from "./lib/orders.mjs";
import { becomes, sure } from "./lib/wait.mjs";

export const title =
  "pictures of all pages, light and dark, wide and narrow, in forced colours: none is blank, none overflows";

const PAGES = [
  ["campaigns", "/ui/", (page) => ready(page)],
  [
    "campaign",
    `/ui/campaign/${GROUP.first}`,
    (page) => page.getByRole("region", { name: "Books" }).waitFor(),
  ],
  [
    "reports",
    "/ui/reports?by=campaign,place,day",
    (page) =>
      page
        .getByText(/as of|Nothing was booked/)
        .first()
        .waitFor(),
  ],
  ["engine", "/ui/engine", (page) => page.getByText(/sums hold/).waitFor()],
  ["costs", "/ui/costs", (page) => page.getByRole("rowheader").first().waitFor()],
  [
    "vault",
    "/ui/vault",
    (page) =>
      page
        .getByText(/sealed/)
        .first()
        .waitFor(),
  ],
  ["fix", "/ui/fix", (page) => page.getByText("GATE → CLIENT1").waitFor()],
  ["orders", "/ui/orders", ordersShown],
  ["audit", "/ui/audit", (page) => page.getByRole("heading", { name: "Audit log" }).waitFor()],
];

/** A sample campaign: ids of those begin above all budgets. */
const CAMPAIGN = 10_001;
const REASONS = [
  "targeting",
  "outbid",
  "currency",
  "seat",
  "deal",
  "budget",
  "insecure",
  "exclusive",
  "group",
];

const LOOKS = [
  ["light-1280", { width: 1280, height: 1000, colorScheme: "light" }],
  ["dark-1280", { width: 1280, height: 1000, colorScheme: "dark" }],
  ["light-1440", { width: 1440, height: 1000, colorScheme: "light" }],
  ["dark-1440", { width: 1440, height: 1000, colorScheme: "dark" }],
  ["light-800", { width: 800, height: 1000, colorScheme: "light" }],
  ["dark-800", { width: 800, height: 1000, colorScheme: "dark" }],
  ["forced-1280", { width: 1280, height: 1000, forcedColors: "active" }],
];

/** How many colours a picture has, and how much of it is the commonest one: read in a page, which can decode PNG. */
const inks = (page, png) =>
  page.evaluate(async (text) => {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const picture = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
    const canvas = new OffscreenCanvas(picture.width, picture.height);
    const context = canvas.getContext("2d");
    context.drawImage(picture, 0, 0);
    const pixels = new Uint32Array(context.getImageData(0, 0, picture.width, picture.height).data.buffer);
    const counts = new Map();
    for (let i = 0; i < pixels.length; i += 7) counts.set(pixels[i], (counts.get(pixels[i]) ?? 0) + 1);
    return { colours: counts.size, commonest: (Math.max(...counts.values()) * 7) / pixels.length };
  }, png.toString("base64"));

const COLOURS_LEAST = 20;
const COMMONEST_MOST = 0.995;

/** A page is read downwards; only tables scroll sideways, in boxes of their own. */
const overflow = (page) =>
  page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);

/** Words of a table that reach over the edge of their cell: they lie under what is in the next one. */
const spilled = (page) =>
  page.evaluate(() =>
    [...document.querySelectorAll("main .table :is(th, td)")]
      .filter((cell) => cell.scrollWidth > cell.clientWidth + 1 && !cell.closest(".hidden-text"))
      .map((cell) => cell.textContent),
  );

/** Why bids were kept back, with every reason at once: a sample of the real traffic would take minutes to meet them. */
async function withReasons(page) {
  await page.route("**/v1/budgets/*/refusals", async (route) => {
    const answer = await (await route.fetch()).json();
    const why = REASONS.map((reason, i) => ({ reason, count: 20 - i, estimate: (20 - i) * 1_024 }));
    await route.fulfill({ json: { ...answer, surveyed: 4_096, why } });
  });
}

export default async function journey(stage) {
  const pages = [
    ...PAGES,
    [
      "bidder",
      `/ui/campaign/${CAMPAIGN}`,
      (page) => page.getByText(/What kept it from bidding more/).waitFor(),
    ],
  ];
  const reader = await stage.open("/ui/icon.svg");
  if (stage.shots !== undefined) mkdirSync(stage.shots, { recursive: true });
  for (const [look, options] of LOOKS) {
    const page = await stage.open("/ui/", { ...options, reducedMotion: "reduce" });
    await withReasons(page);
    await withOrders(page);
    for (const [name, at, there] of pages) {
      await page.goto(stage.node.url + at);
      await there(page);
      await loaded(page);
      const png = await page.screenshot();
      if (stage.shots !== undefined) writeFileSync(join(stage.shots, `${name}-${look}.png`), png);
      const { colours, commonest } = await inks(reader, png);
      sure(
        colours >= COLOURS_LEAST && commonest <= COMMONEST_MOST,
        `${name} ${look} looks blank: ${colours} colours, ${(commonest * 100).toFixed(1)} % of one`,
      );
      // Charts and figures find their width after the first picture.
      await becomes(
        async () => (await overflow(page)) <= 0,
        true,
        `${name} ${look} is as wide as its window`,
      );
      await becomes(() => spilled(page), [], `${name} ${look}: words that reach over their cell`);
    }
    await page.context().close();
  }
}
