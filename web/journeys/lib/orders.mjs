// Orders of a FIX door, made up: no peer of the journeys' node sends any.
const SIDES = ["1", "2", "5", "6", null];

const order = (i) => ({
  session: "CLIENT1",
  venue: "VENUE",
  cl_ord_id: `h1795945999752-0-${i}`,
  order_id: i % 4 === 3 ? null : `V${90_210 + i}`,
  account: "A1",
  symbol: ["ACME", "BOLT", "LSEG.L"][i % 3],
  side: SIDES[i % SIDES.length],
  quantity: String(1_200_300 + i),
  price: i % 5 === 2 ? null : "1087.3116",
  cum: "1200000",
  leaves: String(300 + i),
  state: i % 6 === 1 ? "replacing" : "open",
  hold: i % 7 === 6 ? null : { 1: "326193.48", 151: "326193.48" },
  booked: i % 7 === 6 ? null : { 1: "1304773920.00", 151: null },
});

const kill = { scope: "firm", name: "ACME", reason: "a fat finger at the desk of 2 o'clock", who: "ada" };
const kills = [
  { ...kill, at_ms: 1_795_428_000_000, sealed: true, sessions: ["CLIENT1"] },
  { ...kill, scope: "session", name: "CLIENT7", at_ms: 1_795_428_900_000, sealed: false, sessions: [] },
];

/** Open orders of this page, and whose are stopped. */
export async function withOrders(page) {
  const orders = Array.from({ length: 14 }, (_, i) => order(i));
  await page.route("**/v1/fix/orders?*", (route) => route.fulfill({ json: { orders, next: null } }));
  await page.route("**/v1/fix/kill", (route) => route.fulfill({ json: { kills } }));
}

export const ordersShown = (page) => page.getByRole("rowheader", { name: "h1795945999752-0-13" }).waitFor();
