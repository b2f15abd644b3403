// What a browser has to load, compressed: the first page, and what comes later.
import { readFileSync, readdirSync } from "node:fs";
import { brotliCompressSync, gzipSync } from "node:zlib";

const INITIAL_KB_MOST = 150;
const dist = new URL("../dist/", import.meta.url);
const index = readFileSync(new URL("index.html", dist), "utf8");
const sizes = (bytes) => ({
  plain: bytes.length,
  gzip: gzipSync(bytes, { level: 9 }).length,
  brotli: brotliCompressSync(bytes).length,
});
const kb = (bytes) => `${(bytes / 1000).toFixed(1)} kB`.padStart(10);

let initial = sizes(Buffer.from(index)).gzip;
console.log(
  `${"file".padEnd(34)}${"plain".padStart(10)}${"gzip".padStart(10)}${"brotli".padStart(10)}  when`,
);
for (const name of readdirSync(new URL("assets/", dist)).sort()) {
  const { plain, gzip, brotli } = sizes(readFileSync(new URL(`assets/${name}`, dist)));
  const first = index.includes(name);
  if (first) initial += gzip;
  console.log(`${name.padEnd(34)}${kb(plain)}${kb(gzip)}${kb(brotli)}  ${first ? "first page" : "later"}`);
}
console.log(`first page: ${kb(initial).trim()} gzip, limit ${INITIAL_KB_MOST} kB`);
if (initial > INITIAL_KB_MOST * 1000) process.exit(1);
