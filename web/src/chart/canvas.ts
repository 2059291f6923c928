/** A canvas that follows its container, the screen's resolution and the theme; a `Drawing` paints it. */

import { canvasRenderer, shifted } from "./renderer.ts";
import type { Renderer } from "./renderer.ts";
import { svgRenderer } from "./svg.ts";
import { onThemeChange, readTheme } from "./theme.ts";
import type { ChartTheme } from "./theme.ts";
import { createTooltip, element } from "./tooltip.ts";
import type { TooltipContent } from "./tooltip.ts";

export interface Size {
  readonly width: number;
  readonly height: number;
}

export interface Point {
  readonly x: number;
  readonly y: number;
}

export interface Drawing {
  /** What screen readers are told. */
  label(): string;
  draw(renderer: Renderer, size: Size, theme: ChartTheme): void;
  /** What to show beside the pointer; null for nothing. Called with null when the pointer leaves. */
  hover?(point: Point | null, size: Size, theme: ChartTheme): TooltipContent | null;
  click?(point: Point, size: Size): void;
  /** Begin a drag; the answer is told every move and then the end. Null lets the pointer go. */
  drag?(point: Point, size: Size): DragHandler | null;
  /** True for a key that was used; or what to show at a point. */
  key?(event: KeyboardEvent, size: Size): boolean | Shown;
}

export interface Shown {
  readonly content: TooltipContent | null;
  readonly point: Point;
}

export interface DragHandler {
  move(point: Point): void;
  end(point: Point): void;
}

export interface ChartCanvas {
  redraw(): void;
  svg(): string;
  png(): Promise<Blob>;
  size(): Size;
  destroy(): void;
}

const TITLE_HEIGHT = 28;
const PNG_SCALE = 2;

export function createChartCanvas(root: HTMLElement, drawing: Drawing): ChartCanvas {
  const canvas = document.createElement("canvas");
  const frame = element("div", "chart-figure");
  canvas.setAttribute("role", "img");
  frame.append(canvas);
  root.append(frame);
  if (drawing.key !== undefined) canvas.tabIndex = 0;
  const tooltip = createTooltip(frame);
  const context = canvas.getContext("2d");
  if (context === null) throw new Error("this browser gives no 2d canvas");
  let size: Size = { width: 0, height: 0 };
  let theme = readTheme(root);
  let scheduled = 0;

  const paint = (): void => {
    scheduled = 0;
    if (size.width === 0 || size.height === 0) return;
    const ratio = window.devicePixelRatio || 1;
    const [width, height] = [Math.round(size.width * ratio), Math.round(size.height * ratio)];
    if (canvas.width !== width || canvas.height !== height) {
      canvas.width = width;
      canvas.height = height;
    }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, size.width, size.height);
    drawing.draw(canvasRenderer(context), size, theme);
    canvas.setAttribute("aria-label", drawing.label());
  };
  /** A downloaded picture says what it shows. */
  const drawTitled = (renderer: Renderer): void => {
    renderer.text(12, TITLE_HEIGHT / 2, drawing.label(), {
      fill: theme.ink,
      size: 13,
      weight: 600,
    });
    drawing.draw(shifted(renderer, TITLE_HEIGHT), size, theme);
  };
  const redraw = (): void => {
    if (scheduled === 0) scheduled = requestAnimationFrame(paint);
  };
  const resized = new ResizeObserver(([entry]) => {
    const box = entry!.contentRect;
    size = { width: Math.floor(box.width), height: Math.floor(box.height) };
    // Painted in the same frame: a cleared canvas would flash.
    paint();
  });
  resized.observe(frame);
  const stopTheme = onThemeChange(() => {
    theme = readTheme(root);
    redraw();
  });
  const stopPointer = followPointer(canvas, drawing, {
    size: () => size,
    theme: () => theme,
    show: (content, point) =>
      content === null ? tooltip.hide() : tooltip.show(content, point.x, point.y),
    redraw,
  });

  return {
    redraw,
    size: () => size,
    svg() {
      const page = { ...size, height: size.height + TITLE_HEIGHT };
      const renderer = svgRenderer(page, theme.surface);
      drawTitled(renderer);
      return renderer.document();
    },
    png: () =>
      paintedPng(
        { ...size, height: size.height + TITLE_HEIGHT },
        PNG_SCALE,
        theme.surface,
        drawTitled,
      ),
    destroy() {
      cancelAnimationFrame(scheduled);
      resized.disconnect();
      stopTheme();
      stopPointer();
      tooltip.destroy();
      frame.remove();
    },
  };
}

/** A picture as PNG, `scale` pixels for each of its own, over a solid background; a transparent one is unreadable in a dark viewer. */
export function paintedPng(
  size: Size,
  scale: number,
  background: string,
  draw: (renderer: Renderer) => void,
): Promise<Blob> {
  const copy = document.createElement("canvas");
  copy.width = Math.round(size.width * scale);
  copy.height = Math.round(size.height * scale);
  const context = copy.getContext("2d");
  if (context === null) return Promise.reject(new Error("this browser gives no 2d canvas"));
  context.fillStyle = background;
  context.fillRect(0, 0, copy.width, copy.height);
  context.setTransform(scale, 0, 0, scale, 0, 0);
  draw(canvasRenderer(context));
  return new Promise((resolve, reject) => {
    copy.toBlob((blob) =>
      blob === null ? reject(new Error("the canvas could not be written as PNG")) : resolve(blob),
    );
  });
}

interface PointerHost {
  size(): Size;
  theme(): ChartTheme;
  show(content: TooltipContent | null, point: Point): void;
  redraw(): void;
}

function followPointer(canvas: HTMLCanvasElement, drawing: Drawing, host: PointerHost): () => void {
  const ended = new AbortController();
  const listen = { signal: ended.signal };
  let dragging: DragHandler | null = null;
  const at = (event: MouseEvent): Point => {
    const box = canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  const hover = (point: Point | null): void => {
    if (drawing.hover === undefined) return;
    host.show(drawing.hover(point, host.size(), host.theme()), point ?? { x: 0, y: 0 });
  };
  canvas.addEventListener(
    "pointermove",
    (event) => (dragging ? dragging.move(at(event)) : hover(at(event))),
    listen,
  );
  canvas.addEventListener("pointerleave", () => hover(null), listen);
  canvas.addEventListener("click", (event) => drawing.click?.(at(event), host.size()), listen);
  canvas.addEventListener(
    "pointerdown",
    (event) => {
      dragging = event.button === 0 ? (drawing.drag?.(at(event), host.size()) ?? null) : null;
      if (dragging === null) return;
      canvas.setPointerCapture(event.pointerId);
      hover(null);
    },
    listen,
  );
  for (const name of ["pointerup", "pointercancel"] as const) {
    canvas.addEventListener(
      name,
      (event) => {
        dragging?.end(at(event));
        dragging = null;
      },
      listen,
    );
  }
  canvas.addEventListener("blur", () => hover(null), listen);
  canvas.addEventListener(
    "keydown",
    (event) => {
      const answer = drawing.key?.(event, host.size()) ?? false;
      if (answer === false) return;
      event.preventDefault();
      if (answer !== true) host.show(answer.content, answer.point);
    },
    listen,
  );
  return () => ended.abort();
}

/** What every canvas chart of this library offers. */
export interface Chart<Options> {
  update(options: Options): void;
  svg(): string;
  png(): Promise<Blob>;
  destroy(): void;
}

/** Hold a chart's options and draw them; `drawing` reads the current ones whenever it is asked. */
export function mountChart<Options>(
  root: HTMLElement,
  initial: Options,
  drawing: (current: () => Options, redraw: () => void) => Drawing,
): Chart<Options> {
  let options = initial;
  let chartCanvas: ChartCanvas | null = null;
  chartCanvas = createChartCanvas(
    root,
    drawing(
      () => options,
      () => chartCanvas?.redraw(),
    ),
  );
  const made = chartCanvas;
  return {
    update(next) {
      options = next;
      made.redraw();
    },
    svg: made.svg,
    png: made.png,
    destroy: made.destroy,
  };
}
