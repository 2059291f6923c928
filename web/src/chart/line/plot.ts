/** What is under the lines of a chart: the canvas, its axes, and the selection of a range. */

import { AXIS_HEIGHT, drawAxisX, drawAxisY, labelWidth } from "../axes.ts";
import type { Size } from "../canvas.ts";
import { canvasRenderer } from "../renderer.ts";
import type { Box } from "../renderer.ts";
import { createScale } from "../scale.ts";
import type { Range } from "../scale.ts";
import type { ChartTheme } from "../theme.ts";
import { ticks } from "../ticks.ts";
import { element } from "../tooltip.ts";
import type { LineOptions } from "./options.ts";

export interface Plot {
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

const X_TICK_PX = 90;
const Y_TICK_PX = 40;
const TOP = 8;
const RIGHT = 12;
const SMALLEST_DRAG_PX = 4;
const SMALLEST_SWIPE_PX = 24;

export function createPlot(
  host: HTMLElement,
  { theme, options, draw, select, ...setup }: PlotSetup,
): Plot {
  const canvas = document.createElement("canvas");
  const over = element("div", "chart-over");
  const context = canvas.getContext("2d");
  if (context === null) throw new Error("this browser gives no 2d canvas");
  host.append(canvas, over);
  let { size } = setup;
  let [x, y]: Range[] = [
    { min: 1, max: 2 },
    { min: 1, max: 2 },
  ];
  let isAsked = false;

  const yTicks = () =>
    ticks(options.yKind, y!, Math.max(2, (size.height - AXIS_HEIGHT) / Y_TICK_PX), options.yFormat);
  let box: Box = { left: 0, top: 0, ...size };
  const place = (): void => {
    const left = labelWidth(yTicks().labels) + 4;
    box = {
      left,
      top: TOP,
      width: Math.max(1, size.width - left - RIGHT),
      height: Math.max(1, size.height - TOP - AXIS_HEIGHT),
    };
    for (const side of ["left", "top", "width", "height"] as const)
      over.style[side] = `${box[side]}px`;
  };
  place();
  const xScale = () => createScale(options.xKind, x!, box.left, box.left + box.width);
  const paint = (): void => {
    isAsked = false;
    const ratio = devicePixelRatio || 1;
    const [width, height] = [Math.round(size.width * ratio), Math.round(size.height * ratio)];
    if (canvas.width !== width || canvas.height !== height)
      Object.assign(canvas, { width, height });
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, size.width, size.height);
    const renderer = canvasRenderer(context);
    drawAxisY(
      renderer,
      box,
      createScale(options.yKind, y!, box.top + box.height, box.top),
      yTicks(),
      theme,
    );
    drawAxisX(
      renderer,
      box,
      xScale(),
      ticks(options.xKind, x!, Math.max(2, size.width / X_TICK_PX), options.xFormat),
      theme,
      true,
      options.xName,
    );
    context.save();
    draw(context);
    context.restore();
  };
  followSelection(over, (from, to) => {
    const scale = xScale();
    select({ min: scale.toValue(box.left + from), max: scale.toValue(box.left + to) });
  });
  return {
    over,
    box: () => box,
    show(nextX, nextY) {
      [x, y] = [nextX, nextY];
      place();
      paint();
    },
    repaint() {
      if (!isAsked) queueMicrotask(() => isAsked && paint());
      isAsked = true;
    },
    resize(to) {
      size = to;
      place();
    },
    destroy() {
      isAsked = false;
      canvas.remove();
      over.remove();
    },
  };
}

/** Tell the pixels between which a pointer was dragged. A finger that goes up or down scrolls: the browser cancels the pointer then. */
function followSelection(over: HTMLElement, select: (from: number, to: number) => void): void {
  const marked = element("div", "chart-selection");
  let start: number | null = null;
  const at = ({ clientX }: PointerEvent): number => {
    const { left, width } = over.getBoundingClientRect();
    return Math.max(0, Math.min(width, clientX - left));
  };
  const span = (event: PointerEvent): [number, number] => [
    Math.min(start!, at(event)),
    Math.max(start!, at(event)),
  ];
  over.append(marked);
  over.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || !event.isPrimary) return;
    over.setPointerCapture(event.pointerId);
    start = at(event);
  });
  over.addEventListener("pointermove", (event) => {
    if (start === null) return;
    const [from, to] = span(event);
    marked.style.left = `${from}px`;
    marked.style.width = to - from < SMALLEST_DRAG_PX ? "" : `${to - from}px`;
  });
  for (const name of ["pointerup", "pointercancel"] as const) {
    over.addEventListener(name, (event) => {
      const [from, to] = start === null ? [0, 0] : span(event);
      start = null;
      marked.style.width = "";
      if (
        name === "pointerup" &&
        to - from >= (event.pointerType === "touch" ? SMALLEST_SWIPE_PX : SMALLEST_DRAG_PX)
      )
        select(from, to);
    });
  }
}
