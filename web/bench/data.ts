/** Made-up trainings, the same at every load. */

import type { BucketData, RawData } from "../src/chart/series.ts";

type Random = () => number;

/** Small seeded generator (mulberry32), so that pictures can be compared. */
function seeded(seed: number): Random {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

function normal(random: Random): number {
  return Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
}

interface CurveShape {
  readonly seed: number;
  readonly num: number;
  readonly stride?: number;
  readonly start?: number;
  readonly from?: number;
  readonly to?: number;
  readonly noise?: number;
}

/** A loss that falls by a power law, with noise that shrinks along. */
export function lossCurve({
  seed,
  num,
  stride = 1,
  start = 0,
  from = 9,
  to = 2.8,
  noise = 0.06,
}: CurveShape): RawData {
  const random = seeded(seed);
  const x = new Float64Array(num);
  const y = new Float64Array(num);
  const rate = 0.28 + random() * 0.08;
  let drift = 0;
  for (let index = 0; index < num; index++) {
    x[index] = start + index * stride;
    drift = drift * 0.97 + normal(random) * noise * 0.12;
    const trend = to + (from - to) * (1 + x[index]! / 40) ** -rate;
    y[index] = trend + drift + normal(random) * noise * (0.4 + trend / 9);
  }
  return { kind: "raw", x, y };
}

/** Cut a series into slices as the server does. */
export function bucketed({ x, y }: RawData, num: number): BucketData {
  const size = Math.ceil(x.length / num);
  const length = Math.ceil(x.length / size);
  const made = () => new Float64Array(length);
  const data = {
    firstX: made(),
    lastX: made(),
    minX: made(),
    maxX: made(),
    mean: made(),
    min: made(),
    max: made(),
    count: made(),
  };
  for (let slice = 0; slice < length; slice++) {
    const from = slice * size;
    const to = Math.min(x.length, from + size);
    const points = y.subarray(from, to);
    data.firstX[slice] = x[from]!;
    data.lastX[slice] = x[to - 1]!;
    data.mean[slice] = points.reduce((sum, value) => sum + value, 0) / points.length;
    data.min[slice] = Math.min(...points);
    data.max[slice] = Math.max(...points);
    data.minX[slice] = x[from + points.indexOf(data.min[slice]!)]!;
    data.maxX[slice] = x[from + points.indexOf(data.max[slice]!)]!;
    data.count[slice] = to - from;
  }
  return {
    kind: "buckets",
    ...data,
    last: y.at(-1) ?? null,
    nonfiniteX: new Float64Array(0),
    nonfinite: new Float64Array(0),
  };
}
