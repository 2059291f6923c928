/** The vertical line under the pointer, here or on another chart of the same bus, with a dot on every line it crosses. */

import { slotColor } from "../palette.ts";
import type { SyncBus } from "../sync.ts";
import type { ChartTheme } from "../theme.ts";
import { element } from "../tooltip.ts";
import type { Readout } from "./readout.ts";
import type { LineDrawing } from "./drawing.ts";

const MAX_DOTS = 40;

export interface CrosshairMove {
  /** x value, null when there is none. */
  readonly x: number | null;
  /** Pixel y of the pointer in this chart; null when it is elsewhere. */
  readonly y: number | null;
  readonly isOwn: boolean;
}

export interface CrosshairLine {
  /** Put the line over a (new) plotting area. */
  attach(over: HTMLElement): void;
  onMove(listener: (move: CrosshairMove) => void): void;
  /** Move by this chart's own pointer or keys. */
  point(x: number | null, y: number | null): void;
  position(): number | null;
  /** Read again after data or view changed. */
  again(): void;
  draw(readout: Readout | null, drawing: LineDrawing | null, theme: ChartTheme): void;
  /** Share the position on a bus; returns the function that leaves it. */
  join(bus: SyncBus | null): () => void;
}

export function createCrosshair(host: HTMLElement): CrosshairLine {
  const origin = Symbol("chart");
  const layer = element("div", "chart-crosshair");
  const line = element("div", "chart-crosshair-line");
  const dots: HTMLElement[] = [];
  layer.append(line);
  layer.hidden = true;
  let listener: (move: CrosshairMove) => void = () => undefined;
  let current: CrosshairMove = { x: null, y: null, isOwn: false };
  let publish: (x: number | null) => void = () => undefined;

  const dot = (index: number): HTMLElement => {
    const known = dots[index];
    if (known !== undefined) return known;
    const made = element("i", "chart-dot");
    layer.append(made);
    dots.push(made);
    return made;
  };

  return {
    attach(over) {
      over.append(layer);
      host.classList.add("is-ready");
    },
    onMove(callback) {
      listener = callback;
    },
    point(x, y) {
      // The pointer may be in another chart by now.
      if (x === null && !current.isOwn) return;
      current = { x, y, isOwn: true };
      listener(current);
      publish(x);
    },
    position: () => current.x,
    again() {
      if (current.x !== null) listener(current);
    },
    draw(readout, drawing, theme) {
      layer.hidden = readout === null || drawing === null;
      if (readout === null || drawing === null) return;
      const { box } = drawing;
      const px = drawing.x.toPixel(readout.x) - box.left;
      layer.hidden = px < -1 || px > box.width + 1;
      line.style.transform = `translateX(${px.toFixed(1)}px)`;
      const shown = readout.readings
        .filter(({ py }) => py >= box.top - 1 && py <= box.top + box.height + 1)
        .slice(0, MAX_DOTS);
      shown.forEach((reading, index) => {
        const made = dot(index);
        made.hidden = false;
        made.classList.toggle("is-nearest", reading === readout.nearest);
        made.style.background = slotColor(reading.trace.slot, theme.isDark);
        made.style.transform = `translate(${(reading.px - box.left).toFixed(1)}px, ${(reading.py - box.top).toFixed(1)}px)`;
      });
      for (let index = shown.length; index < dots.length; index++) dots[index]!.hidden = true;
    },
    join(bus) {
      if (bus === null) {
        publish = () => undefined;
        return () => undefined;
      }
      publish = (x) => bus.publish({ origin, x });
      return bus.subscribe((crosshair) => {
        if (crosshair.origin === origin) return;
        current = { x: crosshair.x, y: null, isOwn: false };
        listener(current);
      });
    },
  };
}
