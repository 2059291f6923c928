/** The inside of a line chart, drawn with any pen. */

import { formatWhole } from "../format.ts";
import { band, columnBand, columnLine, columns, density, isDense, thinLine, traceLine } from "../outline.ts";
import { slotColor } from "../palette.ts";
import { textWidth } from "../pen.ts";
import type { Box, Pen } from "../pen.ts";
import type { Scale } from "../scale.ts";
import { isSmoothing } from "../smooth.ts";
import type { Trace } from "../series.ts";
import type { ChartTheme } from "../theme.ts";
import { drawMarks, drawStretches } from "./marks.ts";
import { isDimmed } from "./options.ts";
import type { Emphasis, LineOptions } from "./options.ts";

export interface Scene {
  readonly box: Box;
  readonly x: Scale;
  readonly y: Scale;
  readonly traces: readonly Trace[];
  /** Smoothed samples by series id; empty without smoothing. */
  readonly smoothed: ReadonlyMap<string, Float64Array>;
  readonly emphasis: Emphasis;
  readonly options: LineOptions;
  readonly numHidden: number;
  /** Labels of the lines that go beyond a range that was chosen without them. */
  readonly beyond: readonly string[];
}

const DIMMED = 0.13;
const FAINT = 0.28;
const BAND = 0.2;
const DENSE_BAND = 0.42;
const MARK_SIZE = 3.5;
const FINE_POINTS_PER_COLUMN = 0.4;

/** `drawLines` may draw the lines in another way; where it gives false, they are drawn as ever. */
export function drawScene(pen: Pen, scene: Scene, theme: ChartTheme, drawLines: () => boolean = () => false): void {
  const { box, emphasis, options } = scene;
  pen.clip({ left: box.left - 1, top: box.top - 1, width: box.width + 2, height: box.height + 2 }, () => {
    drawHighlight(pen, scene, theme);
    drawMarks(pen, scene, theme);
    drawStretches(pen, scene, theme);
    if (!drawLines()) {
      const order = [...scene.traces].sort((one, other) => rank(one, scene) - rank(other, scene));
      for (const trace of order) drawTrace(pen, scene, trace, theme, isDimmed(trace.id, emphasis) ? DIMMED : 1);
    }
    for (const trace of scene.traces) {
      if (!isDimmed(trace.id, emphasis)) drawNonfinite(pen, scene, trace, theme);
    }
    for (const limit of options.limits) drawLimit(pen, scene, limit.y, limit.label, theme);
    if (scene.traces.every((trace) => trace.x.length === 0)) {
      pen.text(box.left + box.width / 2, box.top + box.height / 2, "no data yet", { fill: theme.muted, align: "center" });
    }
    if (hiddenText(scene) !== "") drawHiddenNote(pen, scene, theme);
  });
}

export function rank(trace: Trace, { emphasis, options }: Scene): number {
  if (trace.id === emphasis.hovered) return 4;
  if (isDimmed(trace.id, emphasis)) return 0;
  return trace.id === options.chosen ? 3 : trace.id === options.baseline ? 2 : 1;
}

function drawTrace(pen: Pen, scene: Scene, trace: Trace, theme: ChartTheme, alpha: number): void {
  const { x, y, box, emphasis, options } = scene;
  const color = slotColor(trace.slot, theme.isDark);
  const isProminent = [emphasis.hovered, options.baseline, options.chosen].includes(trace.id);
  const ink = { stroke: color, width: isProminent ? 2.25 : 1.5, alpha, dash: trace.dash };
  const { spread } = trace;
  if (spread !== null) {
    pen.path({ fill: color, alpha: alpha * BAND }, (sink) => band(sink, trace.sampleX, spread.low, spread.high, x, y));
  }
  const smoothed = isSmoothing(options.smoothing) ? scene.smoothed.get(trace.id) : undefined;
  if (isDense(trace.x, x, box.width)) {
    const stretches = columns(trace.x, trace.y, x, y);
    const bandAlpha = alpha * (smoothed === undefined ? DENSE_BAND : FAINT);
    pen.path({ stroke: color, width: 1, alpha: bandAlpha, cap: "butt" }, (sink) => columnBand(sink, stretches));
    // A line of one pixel is many times cheaper to paint without a GPU, and reads better where there is much noise.
    if (smoothed === undefined) pen.path({ ...ink, width: isProminent ? ink.width : 1 }, (sink) => columnLine(sink, stretches));
  } else {
    const isFine = smoothed !== undefined || (!isProminent && density(trace.x, x, box.width) > FINE_POINTS_PER_COLUMN);
    const raw = { ...ink, width: isFine ? 1 : ink.width, alpha: smoothed === undefined ? alpha : alpha * FAINT };
    pen.path(raw, (sink) => traceLine(sink, trace.x, trace.y, x, y));
    drawFewPoints(pen, trace, scene, color, raw.alpha);
  }
  if (smoothed !== undefined) pen.path(ink, (sink) => thinLine(sink, trace.sampleX, smoothed, x, y, box.width));
}

function drawFewPoints(pen: Pen, trace: Trace, { x, y, box }: Scene, fill: string, alpha: number): void {
  if (trace.x.length * 14 > box.width || trace.data.kind !== "raw") return;
  for (let index = 0; index < trace.x.length; index++) {
    const [px, py] = [x.toPixel(trace.x[index]!), y.toPixel(trace.y[index]!)];
    if (Number.isFinite(px) && Number.isFinite(py)) pen.circle(px, py, 2.25, { fill, alpha });
  }
}

/** nan: a cross at the bottom; infinity: a triangle at the edge it went through. One a pixel column is enough. */
function drawNonfinite(pen: Pen, { box, x }: Scene, trace: Trace, theme: ChartTheme): void {
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
    if (value === Infinity) drawTriangle(pen, px, box.top + 1, MARK_SIZE, color);
    else if (value === -Infinity) drawTriangle(pen, px, box.top + box.height - 1, -MARK_SIZE, color);
    else drawCross(pen, px, bottom, color, theme.surface);
  }
}

function drawTriangle(pen: Pen, x: number, tip: number, size: number, fill: string): void {
  pen.path({ fill }, (sink) => {
    sink.moveTo(x, tip);
    sink.lineTo(x + Math.abs(size), tip + size * 1.8);
    sink.lineTo(x - Math.abs(size), tip + size * 1.8);
    sink.closePath();
  });
}

function drawCross(pen: Pen, x: number, y: number, stroke: string, halo: string): void {
  const half = MARK_SIZE - 0.75;
  for (const ink of [{ stroke: halo, width: 4 }, { stroke, width: 1.75 }]) {
    pen.path(ink, (sink) => {
      sink.moveTo(x - half, y - half);
      sink.lineTo(x + half, y + half);
      sink.moveTo(x - half, y + half);
      sink.lineTo(x + half, y - half);
    });
  }
}

function drawHighlight(pen: Pen, { box, x, options: { highlight } }: Scene, theme: ChartTheme): void {
  if (highlight === null) return;
  const from = Math.max(box.left, x.toPixel(highlight.min));
  const to = Math.min(box.left + box.width, Math.max(from + 2, x.toPixel(highlight.max)));
  if (to > from) pen.rect({ left: from, top: box.top, width: to - from, height: box.height }, { fill: theme.accent, alpha: 0.1 });
}

function drawLimit(pen: Pen, { box, y }: Scene, value: number, label: string, theme: ChartTheme): void {
  const py = Math.round(y.toPixel(value)) + 0.5;
  if (!Number.isFinite(py)) return;
  pen.path({ stroke: theme.critical, dash: [5, 4], alpha: 0.8 }, (sink) => {
    sink.moveTo(box.left, py);
    sink.lineTo(box.left + box.width, py);
  });
  const below = py - box.top < 16;
  pen.text(box.left + box.width - 4, py + (below ? 9 : -8), label, { fill: theme.critical, align: "right", size: 10.5 });
}

/** What the axis leaves out, in words; empty where it shows everything. */
function hiddenText({ numHidden, beyond, options }: Scene): string {
  if (beyond.length > 0) return `clipped, ${beyond.length === 1 ? "1 line" : `${beyond.length} lines`} beyond`;
  if (numHidden === 0) return "";
  const points = numHidden === 1 ? "1 point" : `${formatWhole(numHidden)} points`;
  return options.yKind === "log" && options.outliers !== "clip" ? `${points} ≤ 0 not shown` : `${points} beyond the axis`;
}

/** Where the note about what is left out stands. */
export function hiddenBox(scene: Scene): Box {
  return { left: scene.box.left + 3, top: scene.box.top + 3, width: textWidth(hiddenText(scene), 10) + 8, height: 15 };
}

function drawHiddenNote(pen: Pen, scene: Scene, theme: ChartTheme): void {
  const at = hiddenBox(scene);
  pen.rect(at, { fill: theme.surface, alpha: 0.85 });
  pen.text(at.left + 4, at.top + 8, hiddenText(scene), { fill: theme.muted, size: 10 });
}
