// Builds the naive page and serves it.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "vite";

// As the dashboard is opened for its clocks: see page.mjs.
const ISOLATED = {
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cross-Origin-Embedder-Policy": "require-corp",
};
const TYPES = { ".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css" };

export async function serveNaive() {
  const folder = mkdtempSync(join(tmpdir(), "weir-naive-"));
  await build({
    configFile: fileURLToPath(new URL("../naive/vite.config.ts", import.meta.url)),
    build: { outDir: folder },
  });
  const server = createServer((request, response) => {
    const asked = normalize(new URL(request.url, "http://naive").pathname);
    const path = asked === "/" ? "index.html" : asked;
    try {
      const bytes = readFileSync(join(folder, path));
      response
        .writeHead(200, { ...ISOLATED, "Content-Type": TYPES[extname(path)] ?? "application/octet-stream" })
        .end(bytes);
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  return {
    origin: `http://127.0.0.1:${server.address().port}`,
    stop: () => {
      server.close();
      server.closeAllConnections();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
