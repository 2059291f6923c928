/** A matrix as colours: rows by layer or expert, columns by step or by expert. */

import { AXIS_HEIGHT, drawAxisX } from "./axes.ts";
import { mountChart } from "./canvas.ts";
import type { Chart, Point, Size } from "./canvas.ts";
import { fitText } from "./color-bar.ts";
import { formatNumber } from "./format.ts";
import { TEXT_SIZE, textWidth } from "./renderer.ts";
import type { Box, Renderer } from "./renderer.ts";
import { rampTable } from "./ramp.ts";
import type { RampKind } from "./ramp.ts";
import { createScale } from "./scale.ts";
import type { Range } from "./scale.ts";
import type { ChartTheme } from "./theme.ts";
import { positionLabel, tickLabel, ticks, axisName } from "./ticks.ts";
import type { AxisFormat } from "./ticks.ts";

export interface HeatmapOptions {
  readonly label: string;
  readonly rowNames: readonly string[];
  /** Either names, or ascending positions on an axis. */
  readonly columns:
    | {
        readonly names: readonly string[] /** What a name is the name of. */;
        readonly noun?: string;
      }
    | { readonly x: Float64Array; readonly format: AxisFormat };
  /** Row by row; nan where there is nothing finite, -infinity where there is nothing at all. */
  readonly values: Float64Array;
  readonly ramp: RampKind;
  /** Values of the ramp's ends; by default those of the data, symmetric about zero when diverging. */
  readonly range?: Range;
  /** More about a cell, for the tooltip. */
  readonly rowNote?: (row: number, column: number) => string;
  /** How a value is told in the tooltip; `at` is its index. */
  readonly format?: (value: number, at: number) => string;
  /** What the numbers beside the colours are. */
  readonly keyName?: string;
  /** What is written into cells: the first of these that has room in all of them. */
  readonly cellTexts?: readonly ((value: number, at: number) => string)[];
  /** A row and a column that are framed; null for none. */
  readonly selected?: { readonly row: number | null; readonly column: number | null };
  readonly onCell?: (row: number, column: number) => void;
}

const KEY_HEIGHT = 24;
const MAX_LABEL = 150;
const NAME_SIZE = Math.min(TEXT_SIZE, 10.5);

export function createHeatmap(root: HTMLElement, options: HeatmapOptions): Chart<HeatmapOptions> {
  return mountChart(root, options, (current) => ({
    label: () =>
      `${current().label}: ${current().rowNames.length} rows, ${numColumns(current())} columns`,
    draw: (renderer, size, theme) => drawHeatmap(renderer, size, current(), theme),
    hover: (point, size) => {
      const cell = point === null ? null : cellUnder(point, size, current());
      if (cell === null) return null;
      const at = cell.row * numColumns(current()) + cell.column;
      const note = current().rowNote?.(cell.row, cell.column) ?? "";
      const rows = [
        {
          label: current().rowNames[cell.row]!,
          value: (current().format ?? formatNumber)(current().values[at]!, at),
        },
      ];
      return {
        title: columnName(current(), cell.column),
        rows,
        ...(note === "" ? {} : { foot: note }),
      };
    },
    click: (point, size) => {
      const cell = cellUnder(point, size, current());
      if (cell !== null) current().onCell?.(cell.row, cell.column);
    },
  }));
}

export function drawHeatmap(
  renderer: Renderer,
  size: Size,
  options: HeatmapOptions,
  theme: ChartTheme,
): void {
  const columns = numColumns(options);
  const rows = options.rowNames.length;
  if (columns === 0 || rows === 0) return;
  const box = layout(size, options);
  const range = options.range ?? valueRange(options.values, options.ramp);
  const table = rampTable(options.ramp, theme.isDark);
  const pixels = Math.min(columns, Math.max(1, Math.floor(box.width)));
  const [width, height] = [box.width / pixels, box.height / rows];
  const gap = width > 6 && height > 6 ? 1 : 0;
  for (let row = 0; row < rows; row++) {
    const line = options.values.subarray(row * columns, (row + 1) * columns);
    reduceRow(line, pixels).forEach((value, pixel) => {
      if (value === -Infinity) return;
      const left = box.left + pixel * width;
      const cell = {
        left,
        top: box.top + row * height,
        width: width - gap + (gap ? 0 : 0.35),
        height: height - gap + (gap ? 0 : 0.35),
      };
      renderer.rect(
        cell,
        Number.isNaN(value)
          ? { fill: theme.critical, alpha: 0.55 }
          : { fill: table[rampIndex(value, range, table.length)]! },
      );
    });
  }
  if (pixels === columns)
    drawNumbers(renderer, box, options, range, table, { width, height }, theme);
  drawSelected(renderer, box, options, { width: box.width / columns, height }, theme);
  drawRowNames(renderer, box, options.rowNames, height, theme);
  drawColumns(renderer, box, options, theme);
  drawKey(renderer, box, size, range, options, table, theme);
}

/** One value a pixel: the one farthest from zero of those that share it, so that a lone hot cell is never lost. */
export function reduceRow(line: Float64Array, pixels: number): Float64Array {
  if (line.length <= pixels) return line;
  const result = new Float64Array(pixels).fill(NaN);
  line.forEach((value, index) => {
    const pixel = Math.min(pixels - 1, Math.floor((index * pixels) / line.length));
    const best = result[pixel]!;
    if (value === -Infinity) return;
    if (Number.isNaN(best) || Math.abs(value) > Math.abs(best)) result[pixel] = value;
  });
  return result;
}

/** Position of a value in a table of `size` colours. */
export function rampIndex(value: number, { min, max }: Range, size: number): number {
  const share = max > min ? (value - min) / (max - min) : 0.5;
  return Math.max(0, Math.min(size - 1, Math.round(share * (size - 1))));
}

function valueRange(values: Float64Array, ramp: RampKind): Range {
  let min = Infinity;
  let max = -Infinity;
  for (const value of values) {
    if (!Number.isFinite(value)) continue;
    if (value < min) min = value;
    if (value > max) max = value;
  }
  if (!(min <= max)) return { min: 0, max: 1 };
  if (ramp === "sequential") return { min, max };
  const reach = Math.max(Math.abs(min), Math.abs(max));
  return { min: -reach, max: reach };
}

function layout(size: Size, { rowNames, columns }: HeatmapOptions): Box {
  const wanted =
    Math.max(
      ...[...rowNames, ("names" in columns && columns.noun) || ""].map((name) => textWidth(name)),
      10,
    ) + 10;
  const left = Math.min(wanted, MAX_LABEL, size.width * 0.35);
  return {
    left,
    top: 4,
    width: Math.max(1, size.width - left - 10),
    height: Math.max(1, size.height - AXIS_HEIGHT - KEY_HEIGHT - 4),
  };
}

const NUMBER_SIZE = 10.5;

function drawNumbers(
  renderer: Renderer,
  box: Box,
  options: HeatmapOptions,
  range: Range,
  table: readonly string[],
  cell: Size,
  theme: ChartTheme,
): void {
  const columns = numColumns(options);
  const fits = (texts: readonly string[]): boolean =>
    cell.height >= NUMBER_SIZE + 4 &&
    texts.every((text) => cell.width >= textWidth(text, NUMBER_SIZE) + 8);
  const written = (options.cellTexts ?? []).map((write) =>
    [...options.values].map((value, at) => (value === -Infinity ? "" : write(value, at))),
  );
  written.find(fits)?.forEach((text, index) => {
    const value = options.values[index]!;
    const fill = Number.isFinite(value)
      ? inkOn(table[rampIndex(value, range, table.length)]!)
      : theme.ink;
    const [x, y] = [
      box.left + ((index % columns) + 0.5) * cell.width,
      box.top + (Math.floor(index / columns) + 0.5) * cell.height,
    ];
    renderer.text(x, y, text, { fill, align: "center", size: NUMBER_SIZE });
  });
}

/** Black or white, whichever stands out from a colour such as `#3d68ca` more. */
export function inkOn(color: string): string {
  const [r, g, b] = [1, 3, 5].map((at) => (parseInt(color.slice(at, at + 2), 16) / 255) ** 2.2);
  // Both have the same contrast at this lightness.
  return 0.2126 * r! + 0.7152 * g! + 0.0722 * b! > 0.179 ? "#000000" : "#ffffff";
}

function drawSelected(
  renderer: Renderer,
  box: Box,
  { selected, rowNames }: HeatmapOptions,
  cell: Size,
  theme: ChartTheme,
): void {
  const { row = null, column = null } = selected ?? {};
  if (row !== null && rowNames.length > 1) {
    renderer.rect(
      {
        left: box.left - 0.5,
        top: box.top + row * cell.height - 0.5,
        width: box.width,
        height: cell.height,
      },
      { stroke: theme.ink, width: 1.25 },
    );
  }
  if (column !== null) {
    const width = Math.max(cell.width, 3);
    renderer.rect(
      {
        left: box.left + (column + 0.5) * cell.width - width / 2,
        top: box.top - 0.5,
        width,
        height: box.height,
      },
      { stroke: theme.ink, width: 1.25 },
    );
  }
}

function drawRowNames(
  renderer: Renderer,
  box: Box,
  names: readonly string[],
  height: number,
  theme: ChartTheme,
): void {
  const every = Math.ceil(13 / height);
  renderer.clip({ left: 0, top: 0, width: box.left - 4, height: box.top + box.height + 8 }, () => {
    for (let row = 0; row < names.length; row += every) {
      renderer.text(
        box.left - 8,
        box.top + (row + 0.5) * height,
        fitText(names[row]!, box.left - 8, NAME_SIZE),
        { fill: theme.muted, align: "right", size: NAME_SIZE },
      );
    }
  });
}

function drawColumns(
  renderer: Renderer,
  box: Box,
  { columns }: HeatmapOptions,
  theme: ChartTheme,
): void {
  if ("x" in columns && areEven(columns.x)) {
    const [first, last] = [columns.x[0] ?? 0, columns.x.at(-1) ?? 1];
    // A position is the middle of its column.
    const half = (last - first) / Math.max(1, columns.x.length - 1) / 2 || 0.5;
    const range = { min: first - half, max: last + half };
    const scale = createScale("linear", range, box.left, box.left + box.width);
    drawAxisX(
      renderer,
      box,
      scale,
      ticks("linear", range, Math.max(2, box.width / 90), columns.format),
      theme,
      false,
      axisName(columns.format),
    );
    return;
  }
  const { names, noun } = "x" in columns ? namesOf(columns) : columns;
  const width = box.width / names.length;
  const widest = Math.max(...names.map((name) => textWidth(name, 10))) + 6;
  const every = Math.max(1, Math.ceil(widest / width));
  if (noun !== undefined)
    renderer.text(box.left - 8, box.top + box.height + 12, fitText(noun, box.left - 8, NAME_SIZE), {
      fill: theme.muted,
      align: "right",
      size: NAME_SIZE,
    });
  for (let column = 0; column < names.length; column += every) {
    const x = box.left + (column + 0.5) * width;
    renderer.text(x, box.top + box.height + 12, names[column]!, {
      fill: theme.muted,
      align: "center",
      size: 10,
    });
  }
}

/** Whether an axis of even distances has each position within its column. */
function areEven(x: Float64Array): boolean {
  const width = (x.at(-1)! - x[0]!) / Math.max(1, x.length - 1);
  return x.every((position, column) => Math.abs(position - x[0]! - column * width) <= width / 2);
}

/** Columns are equally wide: positions at uneven distances stand below them as names. */
function namesOf({ x, format }: { readonly x: Float64Array; readonly format: AxisFormat }): {
  readonly names: readonly string[];
  readonly noun: string;
} {
  const nearest = x.reduce(
    (least, position, column) =>
      column === 0 ? least : Math.min(least, position - x[column - 1]!),
    Infinity,
  );
  return {
    names: Array.from(x, (position) => tickLabel(position, nearest, format)),
    noun: axisName(format),
  };
}

function drawKey(
  renderer: Renderer,
  box: Box,
  size: Size,
  range: Range,
  { values, keyName }: HeatmapOptions,
  table: readonly string[],
  theme: ChartTheme,
): void {
  const width = Math.min(160, box.width * 0.5);
  const written = (value: number): string =>
    tickLabel(value, Math.max(Math.abs(range.max), Math.abs(range.min)) / 100 || 1, "number");
  // Cells beyond the range have the colour of its end.
  const low = `${keyName === undefined ? "" : `${keyName}: `}${values.some((value) => value < range.min && value > -Infinity) ? "≤ " : ""}${written(range.min)}`;
  const high = `${values.some((value) => value > range.max) ? "≥ " : ""}${written(range.max)}`;
  const right = box.left + box.width - textWidth(high) - 6;
  const top = size.height - 13;
  table.forEach((fill, index) => {
    const step = width / table.length;
    renderer.rect(
      { left: right - width + index * step, top, width: step + 0.4, height: 7 },
      { fill },
    );
  });
  renderer.text(right - width - 6, top + 4, low, { fill: theme.muted, align: "right", size: 10 });
  renderer.text(right + 6, top + 4, high, { fill: theme.muted, size: 10 });
}

function numColumns({ columns }: HeatmapOptions): number {
  return "x" in columns ? columns.x.length : columns.names.length;
}

function columnName({ columns }: HeatmapOptions, column: number): string {
  return "x" in columns
    ? positionLabel(columns.x[column]!, columns.format)
    : [columns.noun ?? "", columns.names[column]!].join(" ").trim();
}

function cellUnder(
  point: Point,
  size: Size,
  options: HeatmapOptions,
): { row: number; column: number } | null {
  const box = layout(size, options);
  const column = Math.floor(((point.x - box.left) / box.width) * numColumns(options));
  const row = Math.floor(((point.y - box.top) / box.height) * options.rowNames.length);
  const isInside =
    column >= 0 && column < numColumns(options) && row >= 0 && row < options.rowNames.length;
  return isInside ? { row, column } : null;
}
