import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

const node = "http://127.0.0.1:7780";

export default defineConfig({
  base: "/ui/",
  plugins: [react()],
  build: { target: "es2022", assetsInlineLimit: 0, modulePreload: { polyfill: false }, sourcemap: false },
  server: { proxy: { "/v1": { target: node, ws: true } } },
  test: { include: ["tests/**/*.test.{ts,tsx}"], environment: "node", testTimeout: 60_000 },
});
