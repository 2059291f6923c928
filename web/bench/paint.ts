/** Fifty charts on one page; `window.bench` is driven by paint.mjs. */

import "../src/theme.css";
import "../src/chart/chart.css";
import {
  aggregate,
  createLazyQueue,
  createLineChart,
  createParallel,
  createSyncBus,
} from "../src/chart/index.ts";
import type { LineChart, ParallelOptions, Series } from "../src/chart/index.ts";
import { bucketed, lossCurve } from "./data.ts";

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
  /** Charts of a sweep, its runs in groups of seeds with their mean and spread; milliseconds from the series to the paint. */
  sweep(numRuns: number, numCharts: number): Promise<number>;
  /** Frames a second while a brush moves over parallel coordinates of that many runs. */
  brush(numRuns: number, durationMs: number): Promise<number>;
}

const NUM_CHARTS = 50;
const NUM_SERIES = 10;
const NUM_POINTS = 2000;
const SWEEP_POINTS = 600;
const SEEDS = 5;

const root = document.querySelector<HTMLElement>("#charts")!;
const bus = createSyncBus();
const data: Series[][] = [];
const charts: LineChart[] = [];

function painted(): Promise<number> {
  return new Promise((resolve) => {
    // The frame after the next one begins when the present work is on screen.
    requestAnimationFrame(() =>
      requestAnimationFrame(() => setTimeout(() => resolve(performance.now()))),
    );
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
      data.push(
        Array.from({ length: NUM_SERIES }, (_, index) => {
          const id = `run-${index}`;
          const seed = chart * NUM_SERIES + index;
          const raw = lossCurve({ seed, num: kind === "raw" ? NUM_POINTS : NUM_POINTS * 10 });
          return {
            id,
            label: id,
            slot: index,
            data: kind === "raw" ? raw : bucketed(raw, NUM_POINTS),
          };
        }),
      );
      root.append(document.createElement("div"));
    }
  },
  async paint(isLazy) {
    const start = performance.now();
    const queue = createLazyQueue();
    [...root.children].forEach((place, index) => {
      const create = (): void => {
        const chart = createLineChart(place as HTMLElement, {
          title: `metric ${index}`,
          sync: bus,
        });
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
  pan: (durationMs) =>
    frames(durationMs, (share) => {
      for (const chart of charts) chart.setRange({ min: share * 500, max: share * 500 + 1000 });
    }),
  async sweep(numRuns, numCharts) {
    const curves = Array.from({ length: numCharts * numRuns }, (_, seed) =>
      lossCurve({ seed, num: SWEEP_POINTS }),
    );
    root.replaceChildren(...Array.from({ length: numCharts }, () => document.createElement("div")));
    const start = performance.now();
    [...root.children].forEach((place, chart) => {
      const ofChart = curves.slice(chart * numRuns, (chart + 1) * numRuns);
      const lines = Array.from({ length: Math.ceil(numRuns / SEEDS) }, (_, group): Series => {
        const { x, mean, low, high } = aggregate(
          ofChart.slice(group * SEEDS, (group + 1) * SEEDS),
          "std",
        );
        return {
          id: `group-${group}`,
          label: `group ${group}`,
          slot: group,
          data: { kind: "raw", x, y: mean },
          spread: { low, high },
        };
      });
      createLineChart(place as HTMLElement, { title: `metric ${chart}`, sync: bus }).setSeries(
        lines,
      );
    });
    return (await painted()) - start;
  },
  async brush(numRuns, durationMs) {
    root.replaceChildren(document.createElement("div"));
    const axes = Array.from({ length: 8 }, (_, axis) => ({ name: `key ${axis}` }));
    const items = Array.from({ length: numRuns }, (_, run) => ({
      id: `run-${run}`,
      label: `run-${run}`,
      slot: run,
      values: axes.map((_name, axis) => ((run * 37 + axis * 101) % 997) / 997),
    }));
    const options: ParallelOptions = {
      label: "Runs",
      axes,
      items,
      colorAxis: 7,
      goal: "min",
      brushes: new Map(),
      highlighted: null,
    };
    const chart = createParallel(root.children[0] as HTMLElement, options);
    await painted();
    const found = await frames(durationMs, (share) =>
      chart.update({
        ...options,
        brushes: new Map([[2, { range: [share * 0.6, share * 0.6 + 0.3] as const, names: [] }]]),
      }),
    );
    chart.destroy();
    return found;
  },
  hover: (durationMs) =>
    frames(durationMs, (share) => bus.publish({ origin: Symbol("bench"), x: share * 1900 })),
};

(window as unknown as { bench: Bench }).bench = bench;
