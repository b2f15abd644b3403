// A hash of what the dashboard is built from, left beside what was built: crates/weir/build.rs makes it again, and warns where an
// older dashboard would be packed into the binary. FNV-1a of 64 bits over each path and each file, as it is there.
import { readFileSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const WEB = fileURLToPath(new URL("../", import.meta.url));
const SOURCES = [
  "index.html",
  "package-lock.json",
  "package.json",
  "public",
  "src",
  "tsconfig.json",
  "vite.config.ts",
];
const [BASIS, PRIME] = [0xcbf29ce484222325n, 0x100000001b3n];

/** Goes on with a hash, byte by byte. */
export function fnv(hash, bytes) {
  for (const byte of bytes) hash = BigInt.asUintN(64, (hash ^ BigInt(byte)) * PRIME);
  return hash;
}

/** Files in the order of their paths; hidden ones are nobody's source. */
function filesOf(path) {
  if (statSync(WEB + path).isFile()) return [path];
  const names = readdirSync(WEB + path).filter((name) => !name.startsWith("."));
  return names.flatMap((name) => filesOf(`${path}/${name}`));
}

/** The hash of all sources, 16 hexadecimal digits. */
export function sourcesHash() {
  const files = SOURCES.flatMap(filesOf).sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
  const end = Buffer.from([0]);
  const hash = files.reduce(
    (hash, file) => [Buffer.from(file), end, readFileSync(WEB + file), end].reduce(fnv, hash),
    BASIS,
  );
  return hash.toString(16).padStart(16, "0");
}

if (process.argv[1] === fileURLToPath(import.meta.url))
  writeFileSync(`${WEB}dist/.sources`, `${sourcesHash()}\n`);
