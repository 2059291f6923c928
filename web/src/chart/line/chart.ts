/**
 * A live line chart: plot.ts has the canvas, the axes and the selection, drawing.ts the lines. Every series has x values of
 * its own, and slices have a mean and a range.
 */

import type { Size } from "../canvas.ts";
import { canvasRenderer } from "../renderer.ts";
import { createScale } from "../scale.ts";
import type { Range } from "../scale.ts";
import { prepare } from "../series.ts";
import type { Series, Trace } from "../series.ts";
import { onThemeChange, readTheme } from "../theme.ts";
import { createTooltip, element } from "../tooltip.ts";
import { createCrosshair } from "./crosshair.ts";
import { linePng, lineSvg } from "./exports.ts";
import { followInput } from "./input.ts";
import { createLegend } from "./legend.ts";
import type { Legend } from "./legend.ts";
import { LINE_DEFAULTS, NO_EMPHASIS } from "./options.ts";
import type { Emphasis, LineOptions } from "./options.ts";
import { createPlot } from "./plot.ts";
import type { Plot } from "./plot.ts";
import { extentX, extentY } from "./range.ts";
import type { ExtentY } from "./range.ts";
import { readAt, readoutContent } from "./readout.ts";
import { drawLineChart, hiddenBox } from "./drawing.ts";
import type { LineDrawing } from "./drawing.ts";

export interface LineChart {
  /** Replace the data; a zoom stays where it is, otherwise the axes follow the data. */
  setSeries(series: readonly Series[]): void;
  setOptions(options: Partial<LineOptions>): void;
  /** Show a range of x, or with null everything; calls nothing back. */
  setRange(range: Range | null): void;
  setEmphasis(emphasis: Partial<Emphasis>): void;
  svg(): string;
  png(): Promise<Blob>;
  destroy(): void;
}

export function createLineChart(root: HTMLElement, given: Partial<LineOptions> = {}): LineChart {
  const frame = element("div", "chart-line");
  const host = element("div", "chart-plot");
  frame.append(host);
  root.append(frame);
  let options: LineOptions = { ...LINE_DEFAULTS, ...given };
  let theme = readTheme(root);
  let traces: readonly Trace[] = [];
  let emphasis: Emphasis = NO_EMPHASIS;
  let zoom: Range | null = null;
  let size: Size = { width: 0, height: 0 };
  let plot: Plot | null = null;
  let legend: Legend | null = null;
  let ranges: { x: Range; y: ExtentY } = {
    x: { min: 0, max: 1 },
    y: { range: { min: 0, max: 1 }, numHidden: 0, beyond: [] },
  };
  let isInView = true;
  let isStale = false;
  const tooltip = createTooltip(host);
  const crosshair = createCrosshair(host);
  // The note that lines were clipped is a button.
  const showAll = element("button", "chart-show-all");
  showAll.setAttribute("type", "button");
  showAll.title = "Show all values";
  showAll.addEventListener("click", () => options.onShowAll?.());
  host.append(showAll);
  const placeShowAll = (current: LineDrawing): void => {
    showAll.hidden = options.onShowAll === undefined || current.beyond.length === 0;
    if (showAll.hidden) return;
    for (const [side, px] of Object.entries(hiddenBox(current)))
      showAll.style.setProperty(side, `${px}px`);
    showAll.title = `Beyond the axis: ${current.beyond.join(", ")}. Show all values`;
    showAll.setAttribute("aria-label", showAll.title);
  };
  showAll.hidden = true;

  const drawing = (): LineDrawing => {
    const box = plot?.box() ?? { left: 0, top: 0, ...size };
    return {
      box,
      x: createScale(options.xKind, ranges.x, box.left, box.left + box.width),
      y: createScale(options.yKind, ranges.y.range, box.top + box.height, box.top),
      traces,
      emphasis,
      options,
      numHidden: ranges.y.numHidden,
      beyond: ranges.y.beyond,
    };
  };

  const build = (): void => {
    plot?.destroy();
    plot = createPlot(host, {
      size,
      theme,
      options,
      draw: (context) => {
        const current = drawing();
        placeShowAll(current);
        drawLineChart(canvasRenderer(context), current, theme);
      },
      select: (range) => {
        zoom = range;
        refresh();
        options.onZoom?.(range);
      },
    });
    crosshair.attach(plot.over);
  };

  const refresh = (): void => {
    const x = zoom ?? extentX(traces, options.xKind);
    const always = [...options.yAlways, ...options.limits.map((limit) => limit.y)];
    ranges = {
      x,
      y: extentY(traces, x, {
        kind: options.yKind,
        outliers: options.outliers,
        chosen: options.chosen,
        always,
        limits: options.yLimits,
      }),
    };
    isStale = !isInView;
    // Out of sight nothing is painted: fifty charts on a page cost what the ten in view do.
    if (!isStale) plot?.show(ranges.x, ranges.y.range);
    crosshair.again();
    legend?.update(traces, emphasis, options.baseline, options.legend === "subjects");
  };

  const moveTo = (range: Range | null): void => {
    zoom = range;
    refresh();
  };

  const emphasise = (change: Partial<Emphasis>): void => {
    emphasis = { ...emphasis, ...change };
    if (isInView) plot?.repaint();
    else isStale = true;
    crosshair.again();
    legend?.update(traces, emphasis, options.baseline, options.legend === "subjects");
  };

  const withLegend = (): void => {
    if (options.legend !== null && legend === null) {
      legend = createLegend(frame, {
        solo: (ids) => {
          emphasise({ solo: ids });
          options.onSolo?.(ids);
        },
        hover: (id) => {
          if (id !== emphasis.hovered) emphasise({ hovered: id });
        },
      });
    } else if (options.legend === null) {
      legend?.destroy();
      legend = null;
    }
  };

  const reset = (): void => {
    zoom = null;
    refresh();
    options.onReset?.();
  };

  crosshair.onMove(({ x, y, isOwn }) => {
    const current = x === null || !isInView ? null : drawing();
    const readout = current === null || x === null ? null : readAt(current, x, y);
    crosshair.draw(readout, current, theme);
    if (readout === null || current === null || !isOwn) tooltip.hide();
    else
      tooltip.show(
        readoutContent(readout, current),
        current.x.toPixel(readout.x),
        y ?? current.box.top,
      );
  });
  const stopInput = followInput(host, {
    drawing: () => (plot === null ? null : drawing()),
    crosshair,
    move: moveTo,
    settled: (range) => options.onZoom?.(range),
    reset,
  });
  let stopSync = crosshair.join(options.sync);

  const resized = new ResizeObserver(([entry]) => {
    const { width, height } = entry!.contentRect;
    size = { width: Math.floor(width), height: Math.floor(height) };
    if (size.width < 40 || size.height < 40) return;
    if (plot === null) build();
    else plot.resize(size);
    refresh();
  });
  resized.observe(host);
  const sighted = new IntersectionObserver(
    (entries) => {
      isInView = entries.at(-1)!.isIntersecting;
      if (isInView && isStale) refresh();
    },
    { rootMargin: "15%" },
  );
  sighted.observe(host);
  const stopTheme = onThemeChange(() => {
    theme = readTheme(root);
    if (plot !== null) {
      build();
      refresh();
    }
  });
  withLegend();

  return {
    setSeries(series) {
      traces = series.map(prepare);
      refresh();
    },
    setOptions(change) {
      const before = options;
      options = { ...options, ...change };
      if (before.sync !== options.sync) {
        stopSync();
        stopSync = crosshair.join(options.sync);
      }
      withLegend();
      const needsPlot = (["xKind", "yKind", "xFormat", "yFormat", "xName", "title"] as const).some(
        (name) => before[name] !== options[name],
      );
      if (before.xFormat !== options.xFormat || before.xKind !== options.xKind) zoom = null;
      if (plot !== null && needsPlot) build();
      refresh();
    },
    setRange: moveTo,
    setEmphasis: emphasise,
    svg: () => lineSvg(drawing(), size, theme),
    png: () => linePng(drawing(), size, theme),
    destroy() {
      resized.disconnect();
      sighted.disconnect();
      stopTheme();
      stopInput();
      stopSync();
      tooltip.destroy();
      legend?.destroy();
      plot?.destroy();
      frame.remove();
    },
  };
}
