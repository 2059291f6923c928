/** Stacked columns along an axis: what a whole is made of, stretch by stretch. */

import { AXIS_HEIGHT, drawAxisX, drawAxisY, labelWidth } from "./axes.ts";
import { mountChart } from "./canvas.ts";
import type { Chart, Point, Size } from "./canvas.ts";
import { slotColor, slotCss } from "./palette.ts";
import type { Box, Renderer } from "./renderer.ts";
import { createScale } from "./scale.ts";
import type { Range, Scale } from "./scale.ts";
import type { ChartTheme } from "./theme.ts";
import { axisName, ticks } from "./ticks.ts";
import type { AxisFormat, Ticks } from "./ticks.ts";

export interface StackPart {
  readonly label: string;
  readonly slot: number;
}

/** One column: from where to where it stands, and the amount of each part, from the bottom up. */
export interface StackColumn extends Range {
  readonly title: string;
  readonly values: readonly number[];
}

export interface StackedOptions {
  readonly label: string;
  readonly parts: readonly StackPart[];
  /** Ascending, without overlaps. */
  readonly columns: readonly StackColumn[];
  readonly xFormat: AxisFormat;
  /** Values as they are, or each column as shares of its own whole. */
  readonly isShares: boolean;
  readonly format: (value: number) => string;
  readonly selected: number | null;
  readonly onColumn?: (index: number) => void;
}

const GAP_PX = 1;

export function createStacked(root: HTMLElement, options: StackedOptions): Chart<StackedOptions> {
  return mountChart(root, options, (current) => ({
    label: () =>
      `${current().label}: ${current()
        .parts.map(({ label }) => label)
        .join(", ")}`,
    draw: (renderer, size, theme) => drawStacked(renderer, size, current(), theme),
    hover: (point, size) => {
      const column =
        point === null ? undefined : current().columns[columnUnder(point, size, current())];
      if (column === undefined) return null;
      const whole = wholeOf(column);
      const rows = current().parts.map(({ label, slot }, index) => ({
        label,
        value: current().format(column.values[index] ?? 0),
        note: percent(column.values[index] ?? 0, whole),
        color: slotCss(slot),
      }));
      // As they lie on each other.
      return {
        title: column.title,
        rows: rows.reverse(),
        foot: `${current().format(whole)} in all`,
      };
    },
    click: (point, size) => {
      const index = columnUnder(point, size, current());
      if (index >= 0) current().onColumn?.(index);
    },
  }));
}

export function wholeOf({ values }: Pick<StackColumn, "values">): number {
  return values.reduce((sum, value) => sum + (value > 0 ? value : 0), 0);
}

function percent(value: number, whole: number): string {
  return whole > 0 ? `${((value / whole) * 100).toFixed(0)}\u00a0%` : "";
}

export function drawStacked(
  renderer: Renderer,
  size: Size,
  options: StackedOptions,
  theme: ChartTheme,
): void {
  const { box, x, y, yTicks } = layout(size, options);
  drawAxisY(renderer, box, y, yTicks, theme);
  options.columns.forEach((column, index) => {
    const left = x.toPixel(column.min);
    const width = Math.max(1, x.toPixel(column.max) - left - GAP_PX);
    const whole = options.isShares ? wholeOf(column) : 1;
    let bottom = 0;
    column.values.forEach((value, part) => {
      if (!(value > 0) || !(whole > 0)) return;
      const [from, to] = [y.toPixel(bottom / whole), y.toPixel((bottom + value) / whole)];
      renderer.rect(
        { left, top: to, width, height: from - to },
        { fill: slotColor(options.parts[part]?.slot ?? 0, theme.isDark) },
      );
      bottom += value;
    });
    if (index === options.selected)
      renderer.rect(
        { left: left - 0.5, top: box.top, width: width + 1, height: box.height },
        { stroke: theme.ink, width: 1.25 },
      );
  });
  drawAxisX(
    renderer,
    box,
    x,
    ticks("linear", x, Math.max(2, box.width / 90), options.xFormat),
    theme,
    false,
    axisName(options.xFormat),
  );
}

function layout(
  size: Size,
  { columns, isShares }: StackedOptions,
): { box: Box; x: Scale; y: Scale; yTicks: Ticks } {
  const height = Math.max(1, size.height - AXIS_HEIGHT - 8);
  const most = isShares ? 1 : Math.max(1e-9, ...columns.map(wholeOf));
  const range = { min: 0, max: isShares ? 1 : most * 1.04 };
  const yTicks = ticks("linear", range, Math.max(2, height / 44), isShares ? "percent" : "number");
  const left = labelWidth(yTicks.labels) + 4;
  const box = { left, top: 8, width: Math.max(1, size.width - left - 12), height };
  const [min, max] = [columns[0]?.min ?? 0, columns.at(-1)?.max ?? 1];
  return {
    box,
    x: createScale(
      "linear",
      max > min ? { min, max } : { min, max: min + 1 },
      left,
      left + box.width,
    ),
    y: createScale("linear", range, box.top + height, box.top),
    yTicks,
  };
}

function columnUnder(point: Point, size: Size, options: StackedOptions): number {
  const { x, box } = layout(size, options);
  if (point.x < box.left || point.x > box.left + box.width) return -1;
  const at = x.toValue(point.x);
  return options.columns.findIndex(({ min, max }) => at >= min && at < max);
}
