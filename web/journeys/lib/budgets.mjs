// The budgets of the journeys: sample campaigns and budgets of many kinds, and two groups whose names the journeys know.
import { print } from "./node.mjs";

/** Paused and resumed in bulk: ids 1 to 150. */
export const GROUP = { name: "Larkspur", first: 1, count: 150 };
/** Changed one by one: ids 151 to 170. */
export const SINGLES = { name: "Marigold", first: 151, count: 20 };

const PLAIN = 3_000;
const CAMPAIGNS = 1_000;
/** Sample campaigns get ids above all budgets. */
const CAMPAIGNS_FROM = 10_000;

const lines = (text) =>
  text
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));

const named = (group, id) => ({
  id,
  name: `${group.name} ${String(id).padStart(3, "0")}`,
  unit: "USD",
  limit: "50000.00",
  status: "active",
  tz: "UTC",
});

function plain(budget) {
  for (const group of [GROUP, SINGLES])
    if (budget.id >= group.first && budget.id < group.first + group.count) return named(group, budget.id);
  return budget;
}

export function budgetLines(weir) {
  const budgets = lines(print(weir, ["sample-budgets", "--count", String(PLAIN)])).map(plain);
  const campaigns = lines(print(weir, ["sample-campaigns", "--count", String(CAMPAIGNS)])).map(
    (campaign) => ({ ...campaign, id: campaign.id + CAMPAIGNS_FROM }),
  );
  return [...budgets, ...campaigns].map((line) => JSON.stringify(line));
}

/** Auctions, plain asks of any budget, and as many of the two groups alone, so that these are busy; for as long as the node runs. */
export function startLoads(node) {
  const always = ["--duration", "1h", "--quiet", "--win", "0.3"];
  const asks = (budgets) =>
    node.load(
      "--target",
      node.addresses.batch,
      "--rate",
      "400",
      "--budgets",
      String(budgets),
      "--exclusive",
      "false",
      "--audit-every",
      "0s",
      ...always,
    );
  node.load("--openrtb", "--target", node.addresses.openrtb, "--rate", "300", "--bodies", "2000", ...always);
  asks(PLAIN);
  asks(GROUP.count + SINGLES.count);
}
