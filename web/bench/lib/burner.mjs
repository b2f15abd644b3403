// Uses so much of a core as the dashboards' own process does, and asks the node for nothing.
//   node burner.mjs 40 2000        40 ms every 2,000 ms
const [ms, everyMs] = process.argv.slice(2).map(Number);

setInterval(() => {
  const { user, system } = process.cpuUsage();
  const used = () => (process.cpuUsage().user + process.cpuUsage().system - user - system) / 1e3;
  while (used() < ms);
}, everyMs);
