/** The uPlot instance under a line chart: canvas, axes, cursor line, selection. Its ranges are always told, never guessed. */

import uPlot from "uplot";

import { AXIS_HEIGHT, drawAxisName, EDGE, fitsBeside, labelWidth } from "../axes.ts";
import type { Size } from "../canvas.ts";
import { canvasRenderer, FONT, TEXT_SIZE } from "../renderer.ts";
import type { Box } from "../renderer.ts";
import type { Range } from "../scale.ts";
import type { ChartTheme } from "../theme.ts";
import { ticks } from "../ticks.ts";
import type { LineOptions } from "./options.ts";

export interface Plot {
  readonly canvas: HTMLCanvasElement;
  /** The element over the plotting area. */
  readonly over: HTMLElement;
  /** The plotting area in CSS pixels of the host. */
  box(): Box;
  show(x: Range, y: Range): void;
  repaint(): void;
  resize(size: Size): void;
  destroy(): void;
}

export interface PlotSetup {
  readonly size: Size;
  readonly theme: ChartTheme;
  readonly options: LineOptions;
  /** Paint the inside; the context is scaled to CSS pixels of the host. */
  draw(context: CanvasRenderingContext2D): void;
  select(range: Range): void;
}

const LINEAR = 1;
const LOGARITHMIC = 3;
const X_TICK_PX = 90;
const Y_TICK_PX = 40;
/** Where uPlot puts the middle of labels under the axis. */
const TICK_BELOW = 10;
const SMALLEST_DRAG_PX = 4;

export function createPlot(host: HTMLElement, setup: PlotSetup): Plot {
  const { options, size } = setup;
  const plot = new uPlot(
    {
      ...size,
      padding: [8, 12, 0, 0],
      legend: { show: false },
      cursor: {
        x: false,
        y: false,
        points: { show: false },
        drag: { x: true, y: false, dist: SMALLEST_DRAG_PX, setScale: false },
        bind: { dblclick: () => null },
      },
      scales: {
        x: { time: false, auto: false, distr: options.xKind === "log" ? LOGARITHMIC : LINEAR, range: asTold },
        y: { auto: false, distr: options.yKind === "log" ? LOGARITHMIC : LINEAR, range: asTold },
      },
      series: [{}, { scale: "y", paths: () => null, points: { show: false } }],
      axes: [xAxis(setup), yAxis(setup)],
      hooks: {
        draw: [(drawn) => paint(drawn, setup)],
        setSelect: [
          (drawn) => {
            const { left, width } = drawn.select;
            if (width < SMALLEST_DRAG_PX) return;
            const range = { min: drawn.posToVal(left, "x"), max: drawn.posToVal(left + width, "x") };
            drawn.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
            setup.select(range);
          },
        ],
      },
    },
    // Positions only; the real data is drawn by the scene.
    [
      [1, 2],
      [null, null],
    ],
    host,
  );
  return {
    canvas: plot.ctx.canvas,
    over: plot.over,
    box: () => cssBox(plot),
    show(x, y) {
      plot.batch(() => {
        plot.setScale("x", { ...x });
        plot.setScale("y", { ...y });
        plot.redraw(false, true);
      });
    },
    repaint: () => plot.redraw(false, false),
    resize: (to) => plot.setSize({ ...to }),
    destroy: () => plot.destroy(),
  };
}

/** uPlot would round a log range to whole decades. */
function asTold(_plot: uPlot, min: number | null, max: number | null): [number, number] {
  return [min ?? 1, max ?? 2];
}

function cssBox(plot: uPlot): Box {
  const ratio = uPlot.pxRatio;
  const { left, top, width, height } = plot.bbox;
  return { left: left / ratio, top: top / ratio, width: width / ratio, height: height / ratio };
}

function paint(plot: uPlot, setup: PlotSetup): void {
  const { ctx } = plot;
  ctx.save();
  ctx.setTransform(uPlot.pxRatio, 0, 0, uPlot.pxRatio, 0, 0);
  setup.draw(ctx);
  if (setup.options.xName !== "") drawAxisName(canvasRenderer(ctx), cssBox(plot), setup.options.xName, setup.theme, TICK_BELOW);
  ctx.restore();
}

function xAxis({ theme, options }: PlotSetup): uPlot.Axis {
  const wanted = (plot: uPlot, min: number, max: number) =>
    ticks(options.xKind, { min, max }, Math.max(2, plot.width / X_TICK_PX), options.xFormat);
  return {
    ...look(theme),
    scale: "x",
    size: AXIS_HEIGHT,
    gap: 4,
    splits: (plot, _axis, min, max) => [...wanted(plot, min, max).at],
    values: (plot, splits) => {
      const labels = labelsFor(splits, wanted(plot, plot.scales["x"]!.min!, plot.scales["x"]!.max!));
      const right = cssBox(plot).width + EDGE;
      return labels.map((label, index) => (fitsBeside(plot.valToPos(splits[index]!, "x"), label, right, options.xName) ? label : ""));
    },
    filter: (_plot, splits) => splits,
  };
}

function yAxis({ theme, options }: PlotSetup): uPlot.Axis {
  const wanted = (plot: uPlot, min: number, max: number) =>
    ticks(options.yKind, { min, max }, Math.max(2, (plot.height - AXIS_HEIGHT) / Y_TICK_PX), options.yFormat);
  return {
    ...look(theme),
    scale: "y",
    gap: 6,
    size: (_plot, values) => labelWidth(values ?? []) + 4,
    splits: (plot, _axis, min, max) => [...wanted(plot, min, max).at],
    values: (plot, splits) => labelsFor(splits, wanted(plot, plot.scales["y"]!.min!, plot.scales["y"]!.max!)),
    filter: (_plot, splits) => splits,
  };
}

function labelsFor(splits: readonly number[], { at, labels }: { at: readonly number[]; labels: readonly string[] }): string[] {
  return splits.map((value) => labels[at.indexOf(value)] ?? "");
}

function look(theme: ChartTheme): Pick<uPlot.Axis, "stroke" | "font" | "grid" | "ticks"> {
  return {
    stroke: theme.muted,
    font: `${TEXT_SIZE}px ${FONT}`,
    grid: { stroke: theme.grid, width: 1 },
    ticks: { show: false },
  };
}
