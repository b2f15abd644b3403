// The pictures of the documentation, of a real node under load: `make pictures` writes them into docs/.
//
//   WEIR=path/of/weir node journeys/pictures.mjs
import { writeFileSync } from "node:fs";
import { Api } from "./lib/api.mjs";
import { launch } from "./lib/browser.mjs";
import { grid, ready } from "./lib/grid.mjs";
import { Node, print } from "./lib/node.mjs";
import { sure, until } from "./lib/wait.mjs";

const { WEIR } = process.env;
const BYTES_MOST = 250_000;
/** Curves of spend have a point every half minute. */
const CURVES_MS = 200_000;
const TEAMS = ["research", "ops", "search", "support", "agents", "evals", "docs", "growth"];
const CAMPAIGNS = 300;
const CAMPAIGNS_FROM = 10_000;

const budgetLines = () => {
  const teams = TEAMS.map((team, i) => ({
    id: i + 1,
    handle: `llm/${team}`,
    name: `LLM calls, ${team}`,
    unit: "USD",
    limit: `${(8 - i) * 2_500}.00`,
    daily: `${(8 - i) * 120}.00`,
    tz: "UTC",
  }));
  const campaigns = print(WEIR, ["sample-campaigns", "--count", String(CAMPAIGNS)])
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line))
    .map((campaign) => ({ ...campaign, id: campaign.id + CAMPAIGNS_FROM }));
  return [...teams, ...campaigns].map((line) => JSON.stringify(line));
};

function startLoads(node) {
  const always = ["--duration", "1h", "--quiet"];
  const { batch, openrtb } = node.addresses;
  node.load("--openrtb", "--target", openrtb, "--rate", "400", "--bodies", "2000", "--win", "0.3", ...always);
  node.load(
    ...["--target", batch, "--rate", "200", "--budgets", String(TEAMS.length), "--exclusive", "false"],
    ...["--audit-every", "0s", ...always],
  );
}

const hasInk = (canvas) =>
  canvas
    .getContext("2d")
    .getImageData(0, 0, canvas.width, canvas.height)
    .data.some((byte) => byte !== 0);

async function picture(page, name) {
  const png = await page.screenshot();
  sure(png.length <= BYTES_MOST, `${name} has ${png.length} bytes, expected at most ${BYTES_MOST}`);
  writeFileSync(new URL(`../../docs/${name}`, import.meta.url), png);
  console.log(`docs/${name}: ${png.length} bytes`);
}

const node = new Node(WEIR, budgetLines());
await node.start();
startLoads(node);
const browser = await launch();
try {
  const api = new Api(node);
  console.log(`curves take ${CURVES_MS / 1_000} s to grow`);
  await until("curves", async () => (await api.get("/node")).uptime_ms > CURVES_MS, 2 * CURVES_MS);
  const page = await browser.newPage({ viewport: { width: 1440, height: 820 }, colorScheme: "light" });
  await page.goto(`${node.url}/ui/`);
  await ready(page, TEAMS.length + CAMPAIGNS);
  await until("curves that are drawn", () => grid(page).locator("canvas").evaluate(hasInk));
  await picture(page, "dashboard.png");
} finally {
  await browser.close();
  await node.stop();
}
