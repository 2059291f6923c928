/** Axes of charts that draw their own: a quiet grid, labels outside, no box. */

import { textWidth } from "./renderer.ts";
import type { Box, Renderer } from "./renderer.ts";
import type { Scale } from "./scale.ts";
import type { ChartTheme } from "./theme.ts";
import type { Ticks } from "./ticks.ts";

export const AXIS_HEIGHT = 22;
const LABEL_GAP = 8;
/** How far labels may reach beyond the plotting area. */
const EDGE = 8;
const NAME_GAP = 8;
/** Bold letters are wider. */
const NAME_WEIGHT = 1.08;

/** Room that y labels need on the left. */
export function labelWidth(labels: readonly string[]): number {
  return Math.ceil(Math.max(16, ...labels.map((label) => textWidth(label))) + LABEL_GAP);
}

export function drawAxisX(
  renderer: Renderer,
  box: Box,
  scale: Scale,
  { at, labels }: Ticks,
  theme: ChartTheme,
  hasGrid = true,
  name = "",
): void {
  const right = box.left + box.width + EDGE;
  at.forEach((value, index) => {
    const x = Math.round(scale.toPixel(value)) + 0.5;
    if (hasGrid) verticalLine(renderer, x, box, theme.grid);
    const label = labels[index]!;
    const half = textWidth(label) / 2;
    if (name !== "" && x + half > right - textWidth(name) * NAME_WEIGHT - NAME_GAP) return;
    const align = x + half > right ? "right" : "center";
    renderer.text(align === "right" ? right : x, box.top + box.height + 12, label, {
      fill: theme.muted,
      align,
    });
  });
  if (name !== "")
    renderer.text(right, box.top + box.height + 12, name, {
      fill: theme.muted,
      align: "right",
      weight: 600,
    });
  horizontalLine(renderer, Math.round(box.top + box.height) + 0.5, box, theme.line);
}

export function drawAxisY(
  renderer: Renderer,
  box: Box,
  scale: Scale,
  { at, labels }: Ticks,
  theme: ChartTheme,
): void {
  at.forEach((value, index) => {
    const y = Math.round(scale.toPixel(value)) + 0.5;
    horizontalLine(renderer, y, box, theme.grid);
    renderer.text(box.left - LABEL_GAP, y, labels[index]!, { fill: theme.muted, align: "right" });
  });
}

export function verticalLine(
  renderer: Renderer,
  x: number,
  box: Box,
  stroke: string,
  width = 1,
): void {
  renderer.path({ stroke, width }, (sink) => {
    sink.moveTo(x, box.top);
    sink.lineTo(x, box.top + box.height);
  });
}

function horizontalLine(renderer: Renderer, y: number, box: Box, stroke: string): void {
  renderer.path({ stroke }, (sink) => {
    sink.moveTo(box.left, y);
    sink.lineTo(box.left + box.width, y);
  });
}
