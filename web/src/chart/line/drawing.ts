/** Draws the plot area of a line chart with any renderer. */

import { formatWhole } from "../format.ts";
import { band, columnBand, columnLine, density, isDense, thinLine, traceLine } from "../paths.ts";
import { slotColor } from "../palette.ts";
import { textWidth } from "../renderer.ts";
import type { Box, Renderer } from "../renderer.ts";
import type { Scale } from "../scale.ts";
import type { Trace } from "../series.ts";
import type { ChartTheme } from "../theme.ts";
import { drawCross, drawCrosses, drawMarks, drawStretches } from "./marks.ts";
import { isDimmed } from "./options.ts";
import type { Emphasis, LineOptions } from "./options.ts";

export interface LineDrawing {
  readonly box: Box;
  readonly x: Scale;
  readonly y: Scale;
  readonly traces: readonly Trace[];
  readonly emphasis: Emphasis;
  readonly options: LineOptions;
  readonly numHidden: number;
  /** Labels of the lines that go beyond a range that was chosen without them. */
  readonly beyond: readonly string[];
}

const DIMMED = 0.13;
/** How strong raw lines are behind smoothed ones; of many lines less, or their haze covers everything. */
function faintness(numTraces: number): number {
  return 0.28 * Math.min(1, 10 / Math.max(1, numTraces));
}
const OUTER_BAND = 0.12;
const BAND = 0.2;
const MOST_FULL_BANDS = 8;
const RANGE_BAND = 0.42;
const MARK_SIZE = 3.5;
const FINE_POINTS_PER_COLUMN = 0.4;

export function drawLineChart(renderer: Renderer, drawing: LineDrawing, theme: ChartTheme): void {
  const { box, emphasis, options } = drawing;
  renderer.clip(
    { left: box.left - 1, top: box.top - 1, width: box.width + 2, height: box.height + 2 },
    () => {
      drawMarks(renderer, drawing, theme);
      drawStretches(renderer, drawing, theme);
      const order = [...drawing.traces].sort(
        (one, other) => rank(one, drawing) - rank(other, drawing),
      );
      // Under all lines: a band that is wide hides none.
      for (const trace of order)
        drawBand(renderer, drawing, trace, theme, isDimmed(trace, emphasis) ? DIMMED : 1);
      for (const trace of order)
        drawTrace(renderer, drawing, trace, theme, isDimmed(trace, emphasis) ? DIMMED : 1);
      for (const trace of drawing.traces) {
        if (!isDimmed(trace, emphasis)) drawNonfinite(renderer, drawing, trace, theme);
      }
      drawCrosses(renderer, drawing, theme);
      for (const limit of options.limits) drawLimit(renderer, drawing, limit.y, limit.label, theme);
      if (drawing.traces.every((trace) => trace.x.length === 0)) {
        renderer.text(box.left + box.width / 2, box.top + box.height / 2, options.emptyText, {
          fill: theme.muted,
          align: "center",
        });
      }
      if (hiddenText(drawing) !== "") drawHiddenNote(renderer, drawing, theme);
    },
  );
}

function rank(trace: Trace, { emphasis, options }: LineDrawing): number {
  if ([trace.id, trace.owner, trace.subject].includes(emphasis.hovered ?? "")) return 4;
  if (isDimmed(trace, emphasis)) return 0;
  return trace.owner === options.chosen ? 3 : trace.id === options.baseline ? 2 : 1;
}

function drawBand(
  renderer: Renderer,
  { x, y, traces }: LineDrawing,
  { spread, slot, x: at }: Trace,
  theme: ChartTheme,
  alpha: number,
): void {
  if (spread === null) return;
  const fill = slotColor(slot, theme.isDark);
  const { outer } = spread;
  if (outer !== undefined)
    renderer.path({ fill, alpha: alpha * OUTER_BAND }, (sink) =>
      band(sink, at, outer.low, outer.high, x, y),
    );
  // Many bands on top of each other would hide one another.
  const share = Math.min(1, MOST_FULL_BANDS / traces.length);
  renderer.path({ fill, alpha: alpha * BAND * share }, (sink) =>
    band(sink, at, spread.low, spread.high, x, y),
  );
}

function drawTrace(
  renderer: Renderer,
  drawing: LineDrawing,
  trace: Trace,
  theme: ChartTheme,
  alpha: number,
): void {
  const { x, y, box } = drawing;
  const color = slotColor(trace.slot, theme.isDark);
  const isProminent = rank(trace, drawing) > 1;
  const ink = { stroke: color, width: isProminent ? 2.25 : 1.5, alpha, dash: trace.dash };
  const { smoothed } = trace;
  const isColumns = isDense(trace.x, x, box.width);
  if (isColumns || trace.data.kind === "buckets") {
    const bandAlpha = alpha * (smoothed === null ? RANGE_BAND : faintness(drawing.traces.length));
    renderer.path({ stroke: color, width: 1, alpha: bandAlpha, cap: "butt" }, (sink) =>
      columnBand(sink, trace, x, y),
    );
  }
  if (isColumns) {
    // A line of one pixel is many times cheaper to paint without a GPU, and reads better where there is much noise.
    if (smoothed === null)
      renderer.path({ ...ink, width: isProminent ? ink.width : 1 }, (sink) =>
        columnLine(sink, trace, x, y),
      );
  } else {
    const isFine =
      smoothed !== null ||
      (!isProminent && density(trace.x, x, box.width) > FINE_POINTS_PER_COLUMN);
    const raw = {
      ...ink,
      width: isFine ? 1 : ink.width,
      alpha: smoothed === null ? alpha : alpha * faintness(drawing.traces.length),
    };
    renderer.path(raw, (sink) => traceLine(sink, trace.x, trace.y, x, y));
    drawFewPoints(renderer, trace, drawing, color, raw.alpha);
  }
  if (smoothed !== null)
    renderer.path(ink, (sink) => thinLine(sink, trace.lastX, smoothed, x, y, box.width));
}

function drawFewPoints(
  renderer: Renderer,
  trace: Trace,
  { x, y, box }: LineDrawing,
  fill: string,
  alpha: number,
): void {
  if (trace.x.length * 14 > box.width || trace.data.kind !== "raw") return;
  for (let index = 0; index < trace.x.length; index++) {
    const [px, py] = [x.toPixel(trace.x[index]!), y.toPixel(trace.y[index]!)];
    if (Number.isFinite(px) && Number.isFinite(py)) renderer.circle(px, py, 2.25, { fill, alpha });
  }
}

/** nan: a cross at the bottom; infinity: a triangle at the edge it went through. One a pixel column is enough. */
function drawNonfinite(
  renderer: Renderer,
  { box, x }: LineDrawing,
  trace: Trace,
  theme: ChartTheme,
): void {
  const color = slotColor(trace.slot, theme.isDark);
  const bottom = box.top + box.height - MARK_SIZE - 1;
  let lastX = -Infinity;
  let lastValue = 0;
  for (let index = 0; index < trace.nonfiniteX.length; index++) {
    const px = x.toPixel(trace.nonfiniteX[index]!);
    const value = trace.nonfinite[index]!;
    if (px < box.left - 4 || px > box.left + box.width + 4) continue;
    if (px - lastX < 3 && Object.is(value, lastValue)) continue;
    lastX = px;
    lastValue = value;
    if (value === Infinity) drawTriangle(renderer, px, box.top + 1, MARK_SIZE, color);
    else if (value === -Infinity)
      drawTriangle(renderer, px, box.top + box.height - 1, -MARK_SIZE, color);
    else drawCross(renderer, px, bottom, color, theme.surface);
  }
}

function drawTriangle(
  renderer: Renderer,
  x: number,
  tip: number,
  size: number,
  fill: string,
): void {
  renderer.path({ fill }, (sink) => {
    sink.moveTo(x, tip);
    sink.lineTo(x + Math.abs(size), tip + size * 1.8);
    sink.lineTo(x - Math.abs(size), tip + size * 1.8);
    sink.closePath();
  });
}

function drawLimit(
  renderer: Renderer,
  { box, y }: LineDrawing,
  value: number,
  label: string,
  theme: ChartTheme,
): void {
  const py = Math.round(y.toPixel(value)) + 0.5;
  if (!Number.isFinite(py)) return;
  renderer.path({ stroke: theme.critical, dash: [5, 4], alpha: 0.8 }, (sink) => {
    sink.moveTo(box.left, py);
    sink.lineTo(box.left + box.width, py);
  });
  const below = py - box.top < 16;
  const [right, middle] = [box.left + box.width - 4, py + (below ? 9 : -8)];
  // Lines that run through it would make it unreadable.
  const width = textWidth(label, 10.5);
  renderer.rect(
    { left: right - width - 3, top: middle - 7, width: width + 6, height: 14 },
    { fill: theme.surface, alpha: 0.85 },
  );
  renderer.text(right, middle, label, { fill: theme.critical, align: "right", size: 10.5 });
}

/** What the axis leaves out, in words; empty where it shows everything. */
function hiddenText({ numHidden, beyond, options }: LineDrawing): string {
  if (beyond.length > 0)
    return `clipped, ${beyond.length === 1 ? "1 line" : `${beyond.length} lines`} beyond`;
  if (numHidden === 0) return "";
  const points = numHidden === 1 ? "1 point" : `${formatWhole(numHidden)} points`;
  if (options.yLimits.min !== null || options.yLimits.max !== null)
    return `${points} beyond the limits`;
  return options.yKind === "log" && options.outliers !== "clip"
    ? `${points} ≤ 0 not shown`
    : `${points} beyond the axis`;
}

/** Where the note about what is left out stands. */
export function hiddenBox(drawing: LineDrawing): Box {
  return {
    left: drawing.box.left + 3,
    top: drawing.box.top + 3,
    width: textWidth(hiddenText(drawing), 10) + 8,
    height: 15,
  };
}

function drawHiddenNote(renderer: Renderer, drawing: LineDrawing, theme: ChartTheme): void {
  const at = hiddenBox(drawing);
  renderer.rect(at, { fill: theme.surface, alpha: 0.85 });
  renderer.text(at.left + 4, at.top + 8, hiddenText(drawing), { fill: theme.muted, size: 10 });
}
