import { figure } from "./lib/grid.mjs";
import { becomes, sure, until } from "./lib/wait.mjs";

export const title =
  "engine room and costs show the running node: verdicts, latency, cores, journal, the proof";

async function engineRoom(page, node) {
  await page.getByRole("heading", { name: "Engine room" }).waitFor();
  await page.getByText(new RegExp(`run ${node.run}\\b`)).waitFor();
  const proof = page.getByText(/sums hold/);
  await proof.waitFor();
  const verdicts = page.locator("dl > div", { hasText: "Verdicts per second" }).locator("dd").first();
  await until("verdicts per second", async () => figure(await verdicts.innerText()) > 0);
  const isOn = ({ listen }) => listen !== null;
  sure(node.doors.some(isOn), "a door is on");
  const off = node.doors.filter((door) => !isOn(door)).map(({ door }) => door);
  if (off.length > 0) await page.getByText(`doors that are off: ${off.join(", ")}`).waitFor();
  for (const { door } of node.doors.filter(isOn))
    await page
      .getByRole("region", { name: `Door ${door}` })
      .getByText("p99", { exact: true })
      .first()
      .waitFor();
  await becomes(
    () => page.getByRole("region", { name: "Workers" }).getByRole("row").count(),
    node.workers.length + 1,
    "rows of workers with their head",
  );
  for (const { queue } of node.queues)
    await page
      .getByRole("region", { name: "Queues" })
      .getByRole("rowheader", { name: queue.replaceAll("_", " ") })
      .waitFor();
  await page.getByRole("region", { name: "Journal" }).getByText("sealing").waitFor();
  const before = await page
    .getByText(/as of [\d:.]+/)
    .last()
    .innerText();
  await until(
    "figures of a later moment",
    async () =>
      (await page
        .getByText(/as of [\d:.]+/)
        .last()
        .innerText()) !== before,
  );
}

export default async function journey(stage) {
  const node = await until("a proof of the node", async () => {
    const found = await stage.api.get("/node");
    return found.proof.budgets > 0 && found;
  });
  sure(node.proof.violations === 0, `the proof of the node: ${JSON.stringify(node.proof)}`);
  const page = await stage.open("/ui/engine");
  await engineRoom(page, node);
  await page.getByRole("link", { name: "CPU cost" }).click();
  await page.getByRole("heading", { name: "CPU cost" }).waitFor();
  const row = await until("rows of what the node measures", async () => {
    const { groups } = await stage.api.get("/costs");
    return groups.flatMap((group) => group.rows)[0];
  });
  await page.getByRole("rowheader", { name: row.name, exact: true }).first().waitFor();
}
