/**
 * Points to paths. Where many points share a pixel column, the line goes through the last of each column and a band from
 * the smallest to the largest lies under it: the picture is the one that drawing every point would give, at most a few
 * moves a pixel, and a spike of one step is always in it.
 */

import { lowerBound } from "./series.ts";
import type { Scale } from "./scale.ts";

/** What `Path2D` and the SVG writer have in common. */
export interface PathSink {
  moveTo(x: number, y: number): void;
  lineTo(x: number, y: number): void;
  closePath(): void;
}

const DENSE_POINTS_PER_COLUMN = 1.5;
const THINNEST_BAND = 0.5;

export interface Columns {
  /** Pixel x, last, smallest (drawn highest) and largest pixel y of each occupied column. */
  readonly x: number[];
  readonly last: number[];
  readonly top: number[];
  readonly bottom: number[];
}

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
export function traceLine(sink: PathSink, x: Float64Array, y: Float64Array, xScale: Scale, yScale: Scale): void {
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

/** Write a line that is smooth from column to column: through the last point of each, without a band. */
export function thinLine(sink: PathSink, x: Float64Array, y: Float64Array, xScale: Scale, yScale: Scale, widthPx: number): void {
  if (isDense(x, xScale, widthPx)) columnLine(sink, columns(x, y, xScale, yScale));
  else traceLine(sink, x, y, xScale, yScale);
}

/** Gather the points in view by pixel column, as unbroken stretches. */
export function columns(x: Float64Array, y: Float64Array, xScale: Scale, yScale: Scale): Columns[] {
  const [start, stop] = visible(x, xScale);
  const stretches: Columns[] = [];
  let current: Columns | null = null;
  let column = NaN;
  for (let index = start; index < stop; index++) {
    const px = xScale.toPixel(x[index]!);
    const py = yScale.toPixel(y[index]!);
    if (!Number.isFinite(py) || !Number.isFinite(px)) {
      current = null;
      continue;
    }
    if (current === null) {
      current = { x: [], last: [], top: [], bottom: [] };
      stretches.push(current);
      column = NaN;
    }
    const at = current.x.length - 1;
    if (Math.floor(px) === column) {
      current.last[at] = py;
      if (py < current.top[at]!) current.top[at] = py;
      if (py > current.bottom[at]!) current.bottom[at] = py;
    } else {
      column = Math.floor(px);
      current.x.push(px);
      current.last.push(py);
      current.top.push(py);
      current.bottom.push(py);
    }
  }
  return stretches;
}

export function columnLine(sink: PathSink, stretches: readonly Columns[]): void {
  for (const { x, last } of stretches) {
    sink.moveTo(x[0]!, last[0]!);
    if (x.length === 1) sink.lineTo(x[0]!, last[0]!);
    for (let index = 1; index < x.length; index++) sink.lineTo(x[index]!, last[index]!);
  }
}

/**
 * The band as upright strokes one pixel wide, one a column: a spike is as wide as anything else, and without a GPU this
 * paints several times faster than a filled outline.
 */
export function columnBand(sink: PathSink, stretches: readonly Columns[]): void {
  for (const { x, top, bottom } of stretches) {
    for (let index = 0; index < x.length; index++) {
      if (bottom[index]! - top[index]! < THINNEST_BAND) continue;
      const middle = Math.floor(x[index]!) + 0.5;
      sink.moveTo(middle, top[index]!);
      sink.lineTo(middle, bottom[index]!);
    }
  }
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
  let px: number[] = [];
  let top: number[] = [];
  let bottom: number[] = [];
  const flush = (): void => {
    if (px.length > 0) closedBand(sink, px, top, bottom);
    px = [];
    top = [];
    bottom = [];
  };
  for (let index = start; index < stop; index++) {
    const above = yScale.toPixel(high[index]!);
    const rawBelow = yScale.toPixel(low[index]!);
    // On a log scale a lower edge at or under zero lies infinitely far down.
    const below = yScale.kind === "log" && low[index]! <= 0 ? yScale.toPixel(yScale.min) : rawBelow;
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

function closedBand(sink: PathSink, x: readonly number[], top: readonly number[], bottom: readonly number[]): void {
  sink.moveTo(x[0]!, top[0]!);
  for (let index = 1; index < x.length; index++) sink.lineTo(x[index]!, top[index]!);
  for (let index = x.length - 1; index >= 0; index--) sink.lineTo(x[index]!, bottom[index]!);
  sink.closePath();
}
