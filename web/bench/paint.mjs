// First paint, update, panning and heap of 50 charts × 10 series × 2000 points, and a sweep of 60 runs, in headless Chromium, no GPU.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { build } from "vite";

import { openBrowser } from "./browser.mjs";

/** Of a sweep of 60 runs with 12 charts. */
const LIMITS = { paint_ms: 1200, brush_fps: 30 };
const ROUNDS = Number(process.env.ROUNDS ?? 3);
const [onlyKind, onlyCharts] = process.argv.slice(2); // such as: raw lazy, or: sweep
const root = fileURLToPath(new URL("..", import.meta.url));
const outDir = mkdtempSync(join(tmpdir(), "paint-"));
await build({
  root,
  configFile: join(root, "vite.config.ts"),
  logLevel: "error",
  build: { outDir, emptyOutDir: true, rollupOptions: { input: join(root, "bench/paint.html") } },
});

const median = (values) =>
  [...values].sort((one, other) => one - other)[Math.floor(values.length / 2)];
for (const kind of ["raw", "buckets"]) {
  if (onlyKind === "sweep") continue;
  for (const isLazy of [false, true]) {
    if (
      (onlyKind ?? kind) !== kind ||
      (onlyCharts ?? (isLazy ? "lazy" : "all")) !== (isLazy ? "lazy" : "all")
    )
      continue;
    const rounds = [];
    for (let round = 0; round < ROUNDS; round++) rounds.push(await measure(kind, isLazy));
    const row = Object.fromEntries(
      Object.keys(rounds[0]).map((name) => [
        name,
        Number(median(rounds.map((found) => found[name])).toFixed(1)),
      ]),
    );
    console.log(JSON.stringify({ kind, charts: isLazy ? "in view" : "all 50", ...row }));
  }
}
if (onlyKind === undefined || onlyKind === "sweep") {
  const rounds = [];
  for (let round = 0; round < ROUNDS; round++) rounds.push(await measureSweep());
  const row = Object.fromEntries(
    Object.keys(rounds[0]).map((name) => [
      name,
      Number(median(rounds.map((found) => found[name])).toFixed(1)),
    ]),
  );
  console.log(JSON.stringify({ kind: "sweep", charts: "12, 60 runs in 12 groups", ...row }));
  const isWithin = row.paint_ms <= LIMITS.paint_ms && row.brush_fps >= LIMITS.brush_fps;
  if (!isWithin) {
    console.error(
      `beyond the limits: first paint ${LIMITS.paint_ms} ms, brushing ${LIMITS.brush_fps} frames a second`,
    );
    process.exitCode = 1;
  }
}
rmSync(outDir, { recursive: true, force: true });

async function measureSweep() {
  const { browser, close } = await openBrowser({ viewport: { width: 1360, height: 900 } });
  const page = await browser.newPage();
  await page.goto(`file://${join(outDir, "bench/paint.html")}`);
  const paint_ms = await page.evaluate(() => window.bench.sweep(60, 12));
  const brush_fps = await page.evaluate(() => window.bench.brush(60, 1000));
  const brush_1200_fps = await page.evaluate(() => window.bench.brush(1200, 1000));
  await close();
  return { paint_ms, brush_fps, brush_1200_fps };
}

async function measure(kind, isLazy) {
  const { browser, close } = await openBrowser({
    viewport: { width: 1360, height: 900 },
    flags: ["--enable-precise-memory-info"],
  });
  const page = await browser.newPage();
  await page.goto(`file://${join(outDir, "bench/paint.html")}`);
  await page.evaluate((which) => window.bench.prepare(which), kind);
  const session = await browser.newCDPSession(page);
  const heap = async () => {
    await session.send("HeapProfiler.collectGarbage");
    return (await session.send("Runtime.getHeapUsage")).usedSize / 2 ** 20;
  };
  const before = await heap();
  const paint_ms = await page.evaluate((lazy) => window.bench.paint(lazy), isLazy);
  const update_ms = await page.evaluate(() => window.bench.update());
  const pan_fps = await page.evaluate(() => window.bench.pan(1000));
  const hover_fps = await page.evaluate(() => window.bench.hover(1000));
  const heap_mb = await heap();
  await close();
  return { paint_ms, update_ms, pan_fps, hover_fps, heap_mb, heap_charts_mb: heap_mb - before };
}
