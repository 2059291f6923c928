/** A series in another unit; the same result for the same series, so that charts see that nothing changed. */

import type { SeriesData } from "../../chart/index.ts";

const made = new WeakMap<SeriesData, Map<number, SeriesData>>();

export function scaled(data: SeriesData, factor: number): SeriesData {
  if (factor === 1) return data;
  const known = made.get(data) ?? new Map<number, SeriesData>();
  made.set(data, known);
  const found = known.get(factor) ?? multiplied(data, factor);
  known.set(factor, found);
  return found;
}

function multiplied(data: SeriesData, factor: number): SeriesData {
  const times = (values: Float64Array): Float64Array => values.map((value) => value * factor);
  if (data.kind === "raw") return { ...data, y: times(data.y) };
  return { ...data, last: times(data.last), mean: times(data.mean), min: times(data.min), max: times(data.max) };
}
