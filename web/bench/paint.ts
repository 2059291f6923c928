/** Fifty charts on one page; `window.bench` is driven by paint.mjs. */

import "../src/theme.css";
import "../src/chart/chart.css";
import { createLazyQueue, createLineChart, createSyncBus } from "../src/chart/index.ts";
import type { LineChart, Series } from "../src/chart/index.ts";
import { bucketed, lossCurve } from "../gallery/data.ts";

export interface Bench {
  /** Make the data; not part of any measurement. */
  prepare(kind: "raw" | "buckets"): void;
  /** Create the charts, all or those in view; resolves with the milliseconds until they are painted. */
  paint(isLazy: boolean): Promise<number>;
  /** Give every chart longer data; milliseconds until painted. */
  update(): Promise<number>;
  /** Frames a second while all charts shift their range together. */
  pan(durationMs: number): Promise<number>;
  /** Frames a second while a crosshair moves over all charts. */
  hover(durationMs: number): Promise<number>;
}

const NUM_CHARTS = 50;
const NUM_SERIES = 10;
const NUM_POINTS = 2000;

const root = document.querySelector<HTMLElement>("#charts")!;
const bus = createSyncBus();
const data: Series[][] = [];
const charts: LineChart[] = [];

function painted(): Promise<number> {
  return new Promise((resolve) => {
    // The frame after the next one begins when the present work is on screen.
    requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => resolve(performance.now()))));
  });
}

async function frames(durationMs: number, work: (share: number) => void): Promise<number> {
  const start = performance.now();
  let num = 0;
  while (performance.now() - start < durationMs) {
    work((performance.now() - start) / durationMs);
    await new Promise(requestAnimationFrame);
    num++;
  }
  return (num * 1000) / (performance.now() - start);
}

const bench: Bench = {
  prepare(kind) {
    for (let chart = 0; chart < NUM_CHARTS; chart++) {
      data.push(Array.from({ length: NUM_SERIES }, (_, index) => {
        const id = `run-${index}`;
        const seed = chart * NUM_SERIES + index;
        const raw = lossCurve({ seed, num: kind === "raw" ? NUM_POINTS : NUM_POINTS * 10 });
        return { id, label: id, slot: index, data: kind === "raw" ? raw : bucketed(raw, NUM_POINTS) };
      }));
      root.append(document.createElement("div"));
    }
  },
  async paint(isLazy) {
    const start = performance.now();
    const queue = createLazyQueue();
    [...root.children].forEach((place, index) => {
      const create = (): void => {
        const chart = createLineChart(place as HTMLElement, { title: `metric ${index}`, sync: bus });
        chart.setSeries(data[index]!);
        charts.push(chart);
      };
      if (isLazy) queue.whenNear(place, create);
      else create();
    });
    if (isLazy) while (charts.length === 0) await new Promise(requestAnimationFrame);
    return (await painted()) - start;
  },
  async update() {
    const start = performance.now();
    charts.forEach((chart, index) => chart.setSeries(data[(index + 1) % NUM_CHARTS]!));
    return (await painted()) - start;
  },
  pan: (durationMs) => frames(durationMs, (share) => {
    for (const chart of charts) chart.setRange({ min: share * 500, max: share * 500 + 1000 });
  }),
  hover: (durationMs) => frames(durationMs, (share) => bus.publish({ origin: Symbol("bench"), x: share * 1900 })),
};

(window as unknown as { bench: Bench }).bench = bench;
