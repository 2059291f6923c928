/**
 * Points to paths. Where many points share a pixel column, the line goes through the mean of each column and a band from
 * the smallest to the largest lies under it: at most a few moves a pixel, and a spike of one step is always in the picture.
 */

import { lowerBound, merged, pointSamples } from "./series.ts";
import type { Samples } from "./series.ts";
import type { Scale } from "./scale.ts";

/** What `Path2D` and the SVG writer have in common. */
export interface PathSink {
  moveTo(x: number, y: number): void;
  lineTo(x: number, y: number): void;
  closePath(): void;
}

const DENSE_POINTS_PER_COLUMN = 1.5;
const THINNEST_BAND = 0.5;

/** Indices of the points in view, one more on each side so that lines run off the edge. */
export function visible(x: Float64Array, scale: Scale): readonly [start: number, stop: number] {
  const start = lowerBound(x, scale.min);
  let stop = lowerBound(x, scale.max);
  while (stop < x.length && x[stop] === scale.max) stop++;
  return [Math.max(0, start - 1), Math.min(x.length, stop + 1)];
}

/** Points a pixel column, over the part of the view that has any. */
export function density(x: Float64Array, scale: Scale, widthPx: number): number {
  const [start, stop] = visible(x, scale);
  if (stop - start < 2) return 0;
  const first = Math.max(x[start]!, scale.min);
  const last = Math.min(x[stop - 1]!, scale.max);
  const span = Math.max(1, Math.abs(scale.toPixel(last) - scale.toPixel(first)));
  return (stop - start) / Math.min(span, widthPx);
}

/** Whether the points in view are so many that a band says more than a line through all of them. */
export function isDense(x: Float64Array, scale: Scale, widthPx: number): boolean {
  return density(x, scale, widthPx) > DENSE_POINTS_PER_COLUMN;
}

/** Write the line through every point in view; a nan lifts the pen, a lone point becomes a dot. */
export function traceLine(
  sink: PathSink,
  x: Float64Array,
  y: Float64Array,
  xScale: Scale,
  yScale: Scale,
): void {
  const [start, stop] = visible(x, xScale);
  let isDown = false;
  for (let index = start; index < stop; index++) {
    const px = xScale.toPixel(x[index]!);
    const py = yScale.toPixel(y[index]!);
    if (!Number.isFinite(py) || !Number.isFinite(px)) {
      isDown = false;
    } else if (isDown) {
      sink.lineTo(px, py);
    } else {
      sink.moveTo(px, py);
      // A moveTo alone paints nothing; with round caps a line of no length is a dot.
      if (index + 1 >= stop || !Number.isFinite(yScale.toPixel(y[index + 1]!))) sink.lineTo(px, py);
      isDown = true;
    }
  }
}

/** Write a line without a band: through every point, or through the mean of each pixel column where there are many. */
export function thinLine(
  sink: PathSink,
  x: Float64Array,
  y: Float64Array,
  xScale: Scale,
  yScale: Scale,
  widthPx: number,
): void {
  if (isDense(x, xScale, widthPx)) columnLine(sink, pointSamples(x, y), xScale, yScale);
  else traceLine(sink, x, y, xScale, yScale);
}

/** The samples that share the pixel column of one of them, from the first to before the last. */
export function columnAround(
  x: Float64Array,
  index: number,
  scale: Scale,
): readonly [start: number, stop: number] {
  const column = Math.floor(scale.toPixel(x[index]!));
  let [start, stop] = [index, index + 1];
  while (start > 0 && Math.floor(scale.toPixel(x[start - 1]!)) === column) start--;
  while (stop < x.length && Math.floor(scale.toPixel(x[stop]!)) === column) stop++;
  return [start, stop];
}

/** Write the line through the mean of each pixel column; a column without a finite value lifts the pen. */
export function columnLine(sink: PathSink, samples: Samples, xScale: Scale, yScale: Scale): void {
  const { x } = samples;
  const [first, end] = visible(x, xScale);
  const [middles, means]: [number[], number[]] = [[], []];
  for (let start = first, stop = first; start < end; start = stop) {
    [, stop] = columnAround(x, start, xScale);
    middles.push((x[start]! + x[stop - 1]!) / 2);
    means.push(merged(samples, start, stop).mean);
  }
  traceLine(sink, Float64Array.from(middles), Float64Array.from(means), xScale, yScale);
}

/**
 * The band as upright strokes one pixel wide, one a column: a spike is as wide as anything else, and without a GPU this
 * paints several times faster than a filled outline. A slice that is wider than a pixel fills the columns from its first point to its last.
 */
export function columnBand(
  sink: PathSink,
  { x, firstX, lastX, min, max }: Samples,
  xScale: Scale,
  yScale: Scale,
): void {
  const [start, stop] = visible(x, xScale);
  const [left, right] = [
    Math.floor(xScale.toPixel(xScale.min)),
    Math.ceil(xScale.toPixel(xScale.max)),
  ];
  let [column, top, bottom] = [NaN, Infinity, -Infinity];
  const flush = (): void => {
    if (bottom - top < THINNEST_BAND) return;
    sink.moveTo(column + 0.5, top);
    sink.lineTo(column + 0.5, bottom);
  };
  for (let index = start; index < stop; index++) {
    const above = yScale.toPixel(max[index]!);
    const below = lowerEdge(min[index]!, yScale);
    if (!Number.isFinite(above) || !Number.isFinite(below)) continue;
    const last = Math.min(right, Math.floor(xScale.toPixel(lastX[index]!)));
    for (let at = Math.max(left, Math.floor(xScale.toPixel(firstX[index]!))); at <= last; at++) {
      if (at !== column) {
        flush();
        [column, top, bottom] = [at, above, below];
      }
      if (above < top) top = above;
      if (below > bottom) bottom = below;
    }
  }
  flush();
}

/** Where the lower edge of a band is; on a log scale an edge at or under zero lies infinitely far down. */
function lowerEdge(low: number, scale: Scale): number {
  return scale.toPixel(scale.kind === "log" && low <= 0 ? scale.min : low);
}

/** Write the band between two lines that share their x values; where either is nan it is interrupted. */
export function band(
  sink: PathSink,
  x: Float64Array,
  low: Float64Array,
  high: Float64Array,
  xScale: Scale,
  yScale: Scale,
): void {
  const [start, stop] = visible(x, xScale);
  let [px, top, bottom]: [number[], number[], number[]] = [[], [], []];
  const flush = (): void => {
    if (px.length > 0) closedBand(sink, px, top, bottom);
    [px, top, bottom] = [[], [], []];
  };
  for (let index = start; index < stop; index++) {
    const above = yScale.toPixel(high[index]!);
    const below = lowerEdge(low[index]!, yScale);
    if (!Number.isFinite(above) || !Number.isFinite(below)) {
      flush();
      continue;
    }
    px.push(xScale.toPixel(x[index]!));
    top.push(above);
    bottom.push(below);
  }
  flush();
}

function closedBand(
  sink: PathSink,
  x: readonly number[],
  top: readonly number[],
  bottom: readonly number[],
): void {
  sink.moveTo(x[0]!, top[0]!);
  for (let index = 1; index < x.length; index++) sink.lineTo(x[index]!, top[index]!);
  for (let index = x.length - 1; index >= 0; index--) sink.lineTo(x[index]!, bottom[index]!);
  sink.closePath();
}
