import { signal } from "@preact/signals";
import { beforeEach, expect, test, vi } from "vitest";

import { continued, ema, smoothingWeight } from "../../src/chart/smooth.ts";
import type { SmoothState } from "../../src/chart/smooth.ts";
import type {
  RecordsUpdate,
  SeriesAnswer,
  SeriesPart,
  SeriesRequest,
  Source,
} from "../../src/source/source.ts";
import { createSeriesCache } from "../../src/state/series-cache.ts";
import type { SeriesCache, SeriesQuery, SeriesQueryOptions } from "../../src/state/series-cache.ts";
import type { Points, SeriesHead } from "../../src/wire.ts";

/** A server with one run whose `loss` at step n is n; it knows as many records as it is told. */
function server(): { source: Source; asked: SeriesRequest[]; records: { count: number } } {
  const asked: SeriesRequest[] = [];
  const records = { count: 0 };
  const series = async (request: SeriesRequest): Promise<SeriesAnswer> => {
    asked.push(request);
    const x = Float64Array.from({ length: records.count }, (_, step) => step);
    const parts = (request.ranks === "all" ? [0, 1] : [0]).map((rank): SeriesPart => {
      const head = {
        run: "a",
        name: "loss",
        rank,
        axis: "step",
        x: "step",
        raw: true,
        count: x.length,
      } as SeriesHead;
      return { head, data: { kind: "raw", x, y: x.map((step) => step + rank / 10) }, times: null };
    });
    return { parts, missing: [], positions: { a: place(records.count) } };
  };
  return { asked, records, source: { series, connection: signal("live") } as unknown as Source };
}

function place(count: number): string {
  return `a:loop.1.0.${count}`;
}

function update(from: number, to: number): RecordsUpdate {
  const x = Array.from({ length: to - from }, (_, index) => from + index);
  const points: Points = {
    name: "loss",
    axis: "step",
    rank: 0,
    x,
    t: x.map(() => null),
    value: x,
    nonfinite: {},
  };
  return {
    type: "records",
    run: "a",
    from: place(from),
    to: place(to),
    points: [points],
    entries: [],
    partial: false,
    hasAllRanks: false,
  };
}

/** Rank 1 logs the same steps, each time a tenth more. */
function rankedNews(from: number, to: number): RecordsUpdate {
  const one = update(from, to);
  const [points] = one.points;
  return {
    ...one,
    hasAllRanks: true,
    points: [points!, { ...points!, rank: 1, value: points!.x.map((x) => x + 0.1) }],
  };
}

const LOSS: SeriesQueryOptions = { run: "a", name: "loss", x: "step", range: null, pixels: 600 };

function steps(query: SeriesQuery): number[] {
  const data = query.parts.value?.[0]?.data;
  return data?.kind === "raw" ? [...data.x] : [];
}

function opened(
  count: number,
): ReturnType<typeof server> & { seriesCache: SeriesCache; query: SeriesQuery } {
  const made = server();
  made.records.count = count;
  const seriesCache = createSeriesCache(made.source, () => 1000);
  return { ...made, seriesCache, query: seriesCache.open(LOSS) };
}

const settle = (): Promise<unknown> => vi.advanceTimersByTimeAsync(50);
const late = (): Promise<unknown> => vi.advanceTimersByTimeAsync(3000);

beforeEach(() => {
  vi.useFakeTimers();
});

test("news that follow are added without asking", async () => {
  const { seriesCache, query, asked } = opened(3);
  await settle();
  seriesCache.apply(update(3, 5));
  seriesCache.apply(update(5, 6));
  expect(steps(query)).toEqual([0, 1, 2, 3, 4, 5]);
  expect(asked).toHaveLength(1);
});

test("news that are known already change nothing", async () => {
  const { seriesCache, query } = opened(3);
  await settle();
  seriesCache.apply(update(0, 2));
  seriesCache.apply(update(1, 4));
  expect(steps(query)).toEqual([0, 1, 2, 3]);
});

test("news that came while an answer was under way are not lost", async () => {
  const { seriesCache, query, records } = opened(3);
  await vi.advanceTimersByTimeAsync(12);
  seriesCache.apply(update(3, 4));
  await settle();
  records.count = 4;
  expect(steps(query)).toEqual([0, 1, 2, 3]);
});

test("a gap is asked for", async () => {
  const { seriesCache, query, records, asked } = opened(3);
  await settle();
  records.count = 9;
  seriesCache.apply(update(7, 9));
  expect(steps(query)).toEqual([0, 1, 2]);
  await late();
  expect(steps(query)).toHaveLength(9);
  expect(asked).toHaveLength(2);
});

test("nothing grows during a pause, and everything catches up after it", async () => {
  const { seriesCache, query, records } = opened(3);
  await settle();
  seriesCache.pause(true);
  seriesCache.apply(update(3, 4));
  await late();
  expect(steps(query)).toHaveLength(3);
  records.count = 4;
  seriesCache.pause(false);
  await late();
  expect(steps(query)).toHaveLength(4);
});

test("a cell that was closed is asked for again only if it changed", async () => {
  const { seriesCache, asked } = opened(3);
  await settle();
  seriesCache.close(LOSS);
  seriesCache.open(LOSS);
  await late();
  expect(asked).toHaveLength(1);
  seriesCache.close(LOSS);
  seriesCache.apply(update(3, 4));
  seriesCache.open(LOSS);
  await late();
  expect(asked).toHaveLength(2);
});

test("an answer that failed is asked for again, and the last one stays", async () => {
  const { seriesCache, query, source, records } = opened(3);
  await settle();
  const { series } = source;
  Object.assign(source, { series: () => Promise.reject(new Error("The server does not answer.")) });
  seriesCache.refetch("a");
  await late();
  expect(query.problem.value).toBe("The server does not answer.");
  expect(steps(query)).toHaveLength(3);
  Object.assign(source, { series });
  records.count = 5;
  await late();
  expect(query.problem.value).toBeNull();
  expect(steps(query)).toHaveLength(5);
});

test("every rank grows where the stream tells of every rank", async () => {
  const { seriesCache, asked } = opened(3);
  const all = { ...LOSS, ranks: "all" } as const;
  const query = seriesCache.open(all);
  await settle();
  expect(seriesCache.hasRanks.value).toBe(true);
  seriesCache.apply(rankedNews(3, 5));
  expect(query.parts.value!.map(({ data }) => data.kind === "raw" && [...data.y].at(-1))).toEqual([
    4, 4.1,
  ]);
  expect(asked).toHaveLength(2);
  seriesCache.close(all);
  expect(seriesCache.hasRanks.value).toBe(false);
});

test("other ranks are asked for where the stream tells of the first alone", async () => {
  const { seriesCache, asked } = opened(3);
  seriesCache.open({ ...LOSS, ranks: "all" });
  await settle();
  seriesCache.apply(update(3, 5));
  await late();
  expect(asked.filter(({ ranks }) => ranks === "all")).toHaveLength(2);
});

const SMOOTHED: SeriesQueryOptions = { ...LOSS, smooth: "ema:0.9" };

/** The same server with smoothed values and the state of the average. */
function smoothingServer(count: number): ReturnType<typeof server> {
  const made = server();
  made.records.count = count;
  const plain = made.source.series;
  const series = async (request: SeriesRequest): Promise<SeriesAnswer> => {
    const answer = await plain(request);
    const parts = answer.parts.map((part): SeriesPart => {
      if (part.data.kind !== "raw" || request.smooth === undefined) return part;
      const { x, y } = part.data;
      const weight = smoothingWeight(request.smooth);
      let state: SmoothState = [0, 0, 0, 0];
      y.forEach((value, index) => (state = continued(state, weight, x[index]!, value)));
      return { ...part, smoothed: { text: request.smooth, values: ema(y, weight), state } };
    });
    return { ...answer, parts };
  };
  return { ...made, source: { ...made.source, series } };
}

test("a moving average grows with new points as if all had been asked for", async () => {
  const made = smoothingServer(20);
  const seriesCache = createSeriesCache(made.source, () => 1000);
  const query = seriesCache.open(SMOOTHED);
  await settle();
  made.records.count = 30;
  seriesCache.apply(update(20, 30));
  await settle();
  expect(made.asked).toHaveLength(1);
  const part = query.parts.value![0]!;
  const wanted = ema(
    Float64Array.from({ length: 30 }, (_, step) => step),
    0.9,
  );
  expect(part.smoothed!.values).toHaveLength(30);
  part.smoothed!.values.forEach((value, index) => expect(value).toBeCloseTo(wanted[index]!, 10));
});

test("a zoomed moving average goes on beside points that it does not show", async () => {
  const made = smoothingServer(20);
  const seriesCache = createSeriesCache(made.source, () => 1000);
  const query = seriesCache.open({ ...SMOOTHED, range: { min: 0, max: 25 } });
  await settle();
  seriesCache.apply(update(20, 30));
  const smoothed = query.parts.value![0]!.smoothed!;
  expect(smoothed.values).toHaveLength(26);
  expect(smoothed.state![2]).toBe(29);
});

test("of a wide run only what is on screen is asked for", async () => {
  const { asked, records, seriesCache, query } = opened(20);
  await settle();
  records.count = 22;
  seriesCache.apply({ ...update(20, 22), points: [], partial: true });
  await late();
  expect(asked).toHaveLength(2);
  expect(asked[1]!.names).toEqual(["loss"]);
  expect(steps(query)).toHaveLength(22);
});

test("a series that a partial update has grows without a request", async () => {
  const { asked, seriesCache, query } = opened(20);
  await settle();
  seriesCache.apply({ ...update(20, 22), partial: true });
  await late();
  expect(asked).toHaveLength(1);
  expect(steps(query)).toHaveLength(22);
});

test("a formula is asked for again when its run recorded points, at most every two seconds", async () => {
  const { asked, seriesCache, records } = opened(3);
  seriesCache.open({ ...LOSS, name: "loss * 2" });
  await settle();
  expect(asked.map(({ names }) => names)).toEqual([["loss"], ["loss * 2"]]);
  for (let step = 3; step < 6; step++) {
    records.count = step + 1;
    seriesCache.apply(update(step, step + 1));
    await settle();
  }
  expect(asked).toHaveLength(2);
  await late();
  expect(asked.slice(2).map(({ names }) => names)).toEqual([["loss * 2"]]);
});
