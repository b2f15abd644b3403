// Debian's Chromium, and pages that remember what went wrong in them.
import { execFileSync } from "node:child_process";
import { chromium } from "playwright-core";

function executable() {
  if (process.env.CHROMIUM) return process.env.CHROMIUM;
  try {
    return execFileSync("which", ["chromium"], { encoding: "utf8" }).trim();
  } catch {
    throw new Error("no chromium is found; on Debian: apt-get install chromium, elsewhere CHROMIUM=path");
  }
}

/** `args`: more flags of Chromium. */
export const launch = (args = []) =>
  chromium.launch({
    executablePath: executable(),
    args: [...(process.getuid?.() === 0 ? ["--no-sandbox"] : []), "--disable-dev-shm-usage", ...args],
  });

/** What a page may complain of in every journey: a node that answers with an error on purpose, or is gone, is no fault of the page. */
const NETWORK = /Failed to load resource|WebSocket connection to|net::ERR_/;

/** Collects errors of the page's code and of its security policy. */
export function watch(page) {
  const errors = [];
  page.on("pageerror", (error) => errors.push(`uncaught: ${error.stack ?? error.message}`));
  page.on("console", (message) => {
    if (message.type() === "error" && !NETWORK.test(message.text()))
      errors.push(`console: ${message.text()}`);
  });
  return errors;
}
