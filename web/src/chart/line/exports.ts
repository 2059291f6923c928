/** A line chart as a picture: SVG or PNG. */

import { AXIS_HEIGHT, drawAxisX, drawAxisY, labelWidth } from "../axes.ts";
import { paintedPng } from "../canvas.ts";
import type { Size } from "../canvas.ts";
import { slotColor } from "../palette.ts";
import { textWidth } from "../renderer.ts";
import type { Box, Renderer } from "../renderer.ts";
import { createScale } from "../scale.ts";
import type { Trace } from "../series.ts";
import { svgRenderer } from "../svg.ts";
import type { ChartTheme } from "../theme.ts";
import { ticks } from "../ticks.ts";
import { drawLineChart } from "./drawing.ts";
import type { LineDrawing } from "./drawing.ts";

const LEGEND_LINE = 18;

/** A downloaded picture is at least this large, whatever the chart on the page. */
const SMALLEST = { width: 720, height: 380 };
const PNG_SCALE = 2;
const MOST_NAMED = 40;
const NAME_WIDTH = 18;

/** The chart with its title, axes, their names and legend as an SVG document of vector lines. */
export function lineSvg(drawing: LineDrawing, size: Size, theme: ChartTheme): string {
  const page = pictureSize(drawing, size);
  const renderer = svgRenderer(page, theme.surface);
  drawPicture(renderer, drawing, page, theme);
  return renderer.document();
}

/** The same picture as a PNG with two pixels for each of the SVG. */
export function linePng(drawing: LineDrawing, size: Size, theme: ChartTheme): Promise<Blob> {
  const page = pictureSize(drawing, size);
  return paintedPng(page, PNG_SCALE, theme.surface, (renderer) =>
    drawPicture(renderer, drawing, page, theme),
  );
}

function plotSize({ width, height }: Size): Size {
  return { width: Math.max(width, SMALLEST.width), height: Math.max(height, SMALLEST.height) };
}

function pictureSize({ options, traces }: LineDrawing, size: Size): Size {
  const { width, height } = plotSize(size);
  return {
    width,
    height:
      height + titleHeight(options.title) + legendLines(traces, width).length * LEGEND_LINE + 6,
  };
}

function titleHeight(title: string): number {
  return title === "" ? 10 : 30;
}

function drawPicture(
  renderer: Renderer,
  drawing: LineDrawing,
  page: Size,
  theme: ChartTheme,
): void {
  const { options, traces } = drawing;
  const legend = legendLines(traces, page.width);
  const top = titleHeight(options.title);
  const plotHeight = page.height - top - legend.length * LEGEND_LINE - 6 - AXIS_HEIGHT;
  const yTicks = ticks(options.yKind, drawing.y, Math.max(2, plotHeight / 44), options.yFormat);
  const nameWidth = options.yName === "" ? 0 : NAME_WIDTH;
  const left = labelWidth(yTicks.labels) + 4 + nameWidth;
  const box: Box = { left, top, width: page.width - left - 12, height: plotHeight };
  const x = createScale(options.xKind, drawing.x, box.left, box.left + box.width);
  const y = createScale(options.yKind, drawing.y, box.top + box.height, box.top);
  if (options.title !== "")
    renderer.text(12, 15, options.title, { fill: theme.ink, size: 13, weight: 600 });
  if (nameWidth > 0)
    renderer.text(12, box.top + box.height / 2, options.yName, {
      fill: theme.muted,
      align: "center",
      isVertical: true,
    });
  drawAxisY(renderer, box, y, yTicks, theme);
  drawAxisX(
    renderer,
    box,
    x,
    ticks(options.xKind, drawing.x, Math.max(2, box.width / 90), options.xFormat),
    theme,
    true,
    options.xName,
  );
  drawLineChart(renderer, { ...drawing, box, x, y }, theme);
  drawLegend(renderer, legend, page.height - legend.length * LEGEND_LINE + 2, theme);
  const unnamed = traces.length - MOST_NAMED;
  if (unnamed > 0)
    renderer.text(page.width - 12, 15, `${unnamed} more lines are not named`, {
      fill: theme.muted,
      align: "right",
    });
}

function legendLines(traces: readonly Trace[], width: number): Trace[][] {
  const lines: Trace[][] = [];
  let room = 0;
  for (const trace of traces.slice(0, MOST_NAMED)) {
    const needed = entryWidth(trace);
    if (room < needed || lines.length === 0) {
      lines.push([]);
      room = width - 24;
    }
    lines.at(-1)!.push(trace);
    room -= needed;
  }
  return lines;
}

function entryWidth(trace: Trace): number {
  return textWidth(trace.label) + 34;
}

function drawLegend(
  renderer: Renderer,
  lines: readonly (readonly Trace[])[],
  top: number,
  theme: ChartTheme,
): void {
  lines.forEach((line, row) => {
    let left = 12;
    const y = top + row * LEGEND_LINE;
    for (const trace of line) {
      renderer.path(
        { stroke: slotColor(trace.slot, theme.isDark), width: 2, dash: trace.dash },
        (sink) => {
          sink.moveTo(left, y);
          sink.lineTo(left + 14, y);
        },
      );
      renderer.text(left + 19, y, trace.label, { fill: theme.ink });
      left += entryWidth(trace);
    }
  });
}
