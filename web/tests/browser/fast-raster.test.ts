/** What is drawn while a chart moves is what is drawn when it rests, to a pixel. */

import type { BrowserContext } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";

import type * as Charts from "../../src/chart/index.ts";
import { openBrowser, serve } from "../../bench/browser.mjs";

/** Of every column that has ink: the uppermost and the lowest row of it. */
type Outline = Record<number, readonly [top: number, bottom: number]>;

let server: { address: string; close(): Promise<void> };
let opened: { browser: BrowserContext; close(): Promise<void> };

beforeAll(async () => {
  server = await serve();
  opened = await openBrowser({ viewport: { width: 900, height: 500 } });
});

afterAll(async () => {
  await opened.close();
  await server.close();
});

/** A noisy line with a spike up and one down, moved twice in a moment; as it is then, and at rest. */
async function drawnTwice(): Promise<{ moving: Outline; resting: Outline; isSame: boolean }> {
  const page = await opened.browser.newPage();
  await page.goto(`${server.address}gallery.html`);
  const charts = await page.evaluateHandle<typeof Charts>("import('/src/chart/index.ts')");
  const outlines = await page.evaluate(async ({ createLineChart }) => {
    const root = document.createElement("div");
    root.style.cssText = "position: fixed; inset: 0 auto auto 0; width: 700px; height: 300px; z-index: 9; background: white";
    document.body.append(root);
    const chart = createLineChart(root, { hasLegend: false });
    const x = Float64Array.from({ length: 6000 }, (_, step) => step);
    const y = x.map((step) => Math.sin(step * 12.9898) * 0.2 + (step === 2500 ? 3 : step === 3500 ? -3 : 0));
    chart.setSeries([{ id: "a", label: "a", slot: 0, data: { kind: "raw", x, y } }]);
    const wait = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
    const frame = (): Promise<void> => new Promise((resolve) => requestAnimationFrame(() => resolve()));
    const canvas = (): HTMLCanvasElement => root.querySelector<HTMLCanvasElement>(".chart-plot > canvas")!;
    const pixels = (): ImageData => canvas().getContext("2d")!.getImageData(0, 0, canvas().width, canvas().height);
    const outline = ({ width, height, data }: ImageData): Record<number, [number, number]> => {
      const found: Record<number, [number, number]> = {};
      const box = root.querySelector(".chart-over")!.getBoundingClientRect();
      for (let column = Math.ceil(box.left * devicePixelRatio); column < Math.floor(box.right * devicePixelRatio) && column < width; column++) {
        for (let row = 0; row < height; row++) {
          const [red, , blue, alpha] = data.subarray((row * width + column) * 4, (row * width + column) * 4 + 4) as unknown as [number, number, number, number];
          // The grid and the axes are grey; the tip of a spike may lie half in one column and half in the next.
          if (alpha < 48 || Math.abs(blue - red) < 60) continue;
          found[column] = [found[column]?.[0] ?? row, row];
        }
      }
      return found;
    };
    while (root.querySelector(".chart-over") === null) await frame();
    await wait(600);
    chart.setRange({ min: 1900, max: 4100 });
    await frame();
    chart.setRange({ min: 2000, max: 4000 });
    await frame();
    const moving = pixels();
    await wait(900);
    const resting = pixels();
    return { moving: outline(moving), resting: outline(resting), isSame: moving.data.every((value, index) => value === resting.data[index]) };
  }, charts);
  await page.close();
  return outlines;
}

function extremes(outline: Outline): { peak: [number, number]; valley: [number, number] } {
  const columns = Object.entries(outline).map(([column, ends]) => [Number(column), ...ends] as const);
  const peak = columns.reduce((best, one) => (one[1] < best[1] ? one : best));
  const valley = columns.reduce((best, one) => (one[2] > best[2] ? one : best));
  return { peak: [peak[0], peak[1]], valley: [valley[0], valley[2]] };
}

test("extremes stand where they stand in the exact picture", async () => {
  const { moving, resting, isSame } = await drawnTwice();
  expect(isSame, "the moving picture is a draft").toBe(false);
  expect(Object.keys(moving).length).toBeGreaterThan(500);
  const [fastRaster, exact] = [extremes(moving), extremes(resting)];
  for (const end of ["peak", "valley"] as const) {
    const [columns, rows] = [0, 1].map((at) => Math.abs(fastRaster[end][at]! - exact[end][at]!));
    expect.soft(columns, `${end} sideways`).toBeLessThanOrEqual(2);
    expect.soft(rows, `${end} upright`).toBeLessThanOrEqual(2);
  }
  // Neither reaches higher than the other: a smooth edge may lie in the column beside.
  expect(highest(moving, resting)).toBeLessThanOrEqual(2);
  expect(highest(resting, moving)).toBeLessThanOrEqual(2);
});

/** By how many pixels one picture reaches above the other at most, near the same column. */
function highest(one: Outline, other: Outline): number {
  return Math.max(...Object.entries(one).map(([column, [top]]) => {
    const near = [-2, -1, 0, 1, 2].flatMap((by) => other[Number(column) + by]?.[0] ?? []);
    return Math.min(...near) - top;
  }));
}
