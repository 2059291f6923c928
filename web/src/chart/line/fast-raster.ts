/**
 * Fast rendering of lines while a chart moves: rasterizes every segment into pixel columns, one pixel wide, without anti-aliasing.
 * Without a GPU a canvas strokes noisy lines many times slower; the exact lines are drawn when the view rests.
 */

import { visible } from "../paths.ts";
import { slotColor } from "../palette.ts";
import type { Scale } from "../scale.ts";
import type { Trace } from "../series.ts";
import type { ChartTheme } from "../theme.ts";
import { isDimmed } from "./options.ts";
import { faintness, RANGE_BAND, rank } from "./drawing.ts";
import type { LineDrawing } from "./drawing.ts";

/** With fewer points than this in view, exact lines are as quick. */
const FEWEST_POINTS = 1500;
const DIMMED = 0.13;

export interface FastRaster {
  /** Draw the lines of a scene; false where exact ones are as quick, and nothing was drawn. */
  draw(context: CanvasRenderingContext2D, drawing: LineDrawing, theme: ChartTheme): boolean;
}

/** Pixels of a picture, row by row. */
export interface Grid {
  readonly width: number;
  readonly height: number;
  readonly pixels: Uint32Array<ArrayBuffer>;
  /** Upper and lower end of what a line covers in each column. */
  readonly top: Float32Array;
  readonly bottom: Float32Array;
}

export function createFastRaster(): FastRaster {
  let canvas: HTMLCanvasElement | null = null;
  let grid: Grid | null = null;
  return {
    draw(context, drawing, theme) {
      if (pointsInView(drawing) < FEWEST_POINTS) return false;
      const ratio = context.getTransform().a;
      const { box } = drawing;
      const [width, height] = [Math.round(box.width * ratio), Math.round(box.height * ratio)];
      if (width < 1 || height < 1) return false;
      canvas ??= document.createElement("canvas");
      if (grid === null || grid.width !== width || grid.height !== height) grid = createGrid(width, height);
      if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
      const target = canvas.getContext("2d");
      if (target === null) return false;
      fillGrid(grid, drawing, ratio, theme);
      target.putImageData(new ImageData(new Uint8ClampedArray(grid.pixels.buffer), width, height), 0, 0);
      context.drawImage(canvas, box.left, box.top, box.width, box.height);
      return true;
    },
  };
}

function pointsInView({ traces, x }: LineDrawing): number {
  let num = 0;
  for (const trace of traces) {
    const [start, stop] = visible(trace.x, x);
    num += stop - start;
  }
  return num;
}

export function createGrid(width: number, height: number): Grid {
  return { width, height, pixels: new Uint32Array(width * height), top: new Float32Array(width), bottom: new Float32Array(width) };
}

/** Put the lines of a scene into the grid of its box; `ratio` is how many pixels a CSS pixel has. */
export function fillGrid(grid: Grid, drawing: LineDrawing, ratio: number, theme: ChartTheme): void {
  grid.pixels.fill(0);
  const { emphasis, smoothed, box } = drawing;
  const place = { x: toColumn(drawing.x, box.left, ratio), y: toColumn(drawing.y, box.top, ratio) };
  const order = [...drawing.traces].sort((one, other) => rank(one, drawing) - rank(other, drawing));
  const inkOf = (trace: Trace, share: number): number => packed(slotColor(trace.slot, theme.isDark), share * (isDimmed(trace.id, emphasis) ? DIMMED : 1));
  for (const trace of order) {
    const share = smoothed.has(trace.id) ? faintness(order.length) : 1;
    if (trace.count !== null) addRanges(grid, drawing.x, place, trace, inkOf(trace, Math.min(share, RANGE_BAND)));
    addLine(grid, drawing.x, place, trace, { color: inkOf(trace, share), thickness: 1 });
  }
  for (const trace of order) {
    const y = smoothed.get(trace.id);
    if (y !== undefined) addLine(grid, drawing.x, place, { x: trace.lastX, y }, { color: inkOf(trace, 1), thickness: 2 });
  }
}

interface DraftInk {
  readonly color: number;
  /** In pixels, upright. */
  readonly thickness: number;
}

type Place = (value: number) => number;

/** A scale in pixels of the grid; straight ones without a call to another function. */
function toColumn(scale: Scale, origin: number, ratio: number): Place {
  if (scale.kind === "log") return (value) => (scale.toPixel(value) - origin) * ratio;
  const start = (scale.toPixel(scale.min) - origin) * ratio;
  const factor = ((scale.toPixel(scale.max) - scale.toPixel(scale.min)) * ratio) / (scale.max - scale.min);
  const shift = start - scale.min * factor;
  return (value) => value * factor + shift;
}

/** The range of each slice, over the columns from its first point to its last. */
function addRanges(grid: Grid, xScale: Scale, place: { readonly x: Place; readonly y: Place }, { x, firstX, lastX, min, max }: Trace, color: number): void {
  grid.top.fill(Infinity);
  grid.bottom.fill(-Infinity);
  const [start, stop] = visible(x, xScale);
  for (let index = start; index < stop; index++) {
    const [high, low] = [place.y(max[index]!), place.y(min[index]!)];
    if (!Number.isFinite(high) || !Number.isFinite(low)) continue;
    const last = Math.min(grid.width - 1, Math.floor(place.x(lastX[index]!)));
    for (let column = Math.max(0, Math.floor(place.x(firstX[index]!))); column <= last; column++) cover(grid, column, high, low);
  }
  paintColumns(grid, { color, thickness: 1 });
}

/** The innermost loop of a moving chart: no arrays are made in it, and in `cover` neither. */
function addLine(grid: Grid, xScale: Scale, place: { readonly x: Place; readonly y: Place }, { x, y }: Pick<Trace, "x" | "y">, ink: DraftInk): void {
  grid.top.fill(Infinity);
  grid.bottom.fill(-Infinity);
  const [start, stop] = visible(x, xScale);
  let lastX = NaN;
  let lastY = NaN;
  for (let index = start; index < stop; index++) {
    const px = place.x(x[index]!);
    const py = place.y(y[index]!);
    if (!Number.isFinite(px) || !Number.isFinite(py)) {
      lastX = NaN;
      continue;
    }
    const column = Math.floor(px);
    if (Number.isNaN(lastX)) cover(grid, column, py, py);
    else if (Math.floor(lastX) === column) cover(grid, column, lastY, py);
    else addSegment(grid, lastX, lastY, px, py);
    lastX = px;
    lastY = py;
  }
  paintColumns(grid, ink);
}

/** A segment through several columns, each covered as far as the segment runs in it. */
function addSegment(grid: Grid, fromX: number, fromY: number, toX: number, toY: number): void {
  const first = Math.max(0, Math.floor(fromX));
  const last = Math.floor(toX);
  const slope = (toY - fromY) / (toX - fromX);
  let y = first > fromX ? fromY + slope * (first - fromX) : fromY;
  for (let column = first; column <= last && column < grid.width; column++) {
    const end = column === last ? toY : fromY + slope * (column + 1 - fromX);
    cover(grid, column, y, end);
    y = end;
  }
}

function cover(grid: Grid, column: number, one: number, other: number): void {
  if (column < 0 || column >= grid.width) return;
  const low = one < other ? one : other;
  const high = one < other ? other : one;
  if (low < grid.top[column]!) grid.top[column] = low;
  if (high > grid.bottom[column]!) grid.bottom[column] = high;
}

function paintColumns({ pixels, top, bottom, width, height }: Grid, { color, thickness }: DraftInk): void {
  for (let column = 0; column < width; column++) {
    if (top[column]! > bottom[column]!) continue;
    const end = Math.min(height - 1, Math.floor(bottom[column]!) + thickness - 1);
    for (let row = Math.max(0, Math.floor(top[column]!)); row <= end; row++) pixels[row * width + column] = color;
  }
}

/** A colour such as `#3d68ca` as one pixel of image data, on machines that put the low byte first, as all browsers' do. */
function packed(color: string, alpha: number): number {
  const value = parseInt(color.slice(1), 16);
  const blueToRed = ((value & 255) << 16) | (value & 0xff00) | (value >> 16);
  return ((Math.round(alpha * 255) << 24) | blueToRed) >>> 0;
}
