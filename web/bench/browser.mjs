// A Chromium and a server for the files of this folder, shared by the bench, the pictures and the browser tests.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { chromium } from "playwright-core";
import { createServer } from "vite";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

// Without these, Chromium asks its maker's hosts for updates at every start.
const FLAGS = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync",
];

export async function openBrowser({ flags = [], ...context } = {}) {
  const profile = mkdtempSync(join(tmpdir(), "chromium-"));
  const browser = await chromium.launchPersistentContext(profile, {
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    headless: true,
    args: [...FLAGS, ...flags],
    ...context,
  });
  return {
    browser,
    async close() {
      await browser.close();
      rmSync(profile, { recursive: true, force: true });
    },
  };
}

export async function serve() {
  const server = await createServer({ root: ROOT, configFile: join(ROOT, "vite.config.ts"), logLevel: "error", server: { port: 0, host: "127.0.0.1", hmr: false } });
  await server.listen();
  return { address: server.resolvedUrls.local[0], close: () => server.close() };
}
