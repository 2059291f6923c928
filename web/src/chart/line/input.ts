/** Pointer, wheel, touch and keys over a line chart. A selection is dragged in plot.ts. */

import { moveRange } from "../scale.ts";
import type { Range } from "../scale.ts";
import { lowerBound } from "../series.ts";
import type { CrosshairLine } from "./crosshair.ts";
import { readAt, readingText, readoutTitle, spans } from "./readout.ts";
import type { LineDrawing } from "./drawing.ts";

const SETTLE_MS = 150;
const ZOOM_PER_WHEEL_PX = 1.0015;
const KEY_ZOOM = 0.5;
const KEY_SHIFT = 0.2;

export interface InputHost {
  /** What is on screen; null before the first drawing. */
  drawing(): LineDrawing | null;
  readonly crosshair: CrosshairLine;
  /** The view moves; called often. */
  move(range: Range): void;
  /** The view has come to rest. */
  settled(range: Range): void;
  reset(): void;
}

export function followInput(host: HTMLElement, target: InputHost): () => void {
  const ended = new AbortController();
  const listen = { signal: ended.signal };
  const status = document.createElement("output");
  status.className = "visually-hidden";
  status.setAttribute("aria-live", "polite");
  host.append(status);
  host.tabIndex = 0;
  host.setAttribute("role", "group");
  let timer: ReturnType<typeof setTimeout> | undefined;

  const go = (range: Range): void => {
    target.move(range);
    clearTimeout(timer);
    timer = setTimeout(() => target.settled(range), SETTLE_MS);
  };
  const point = (event: MouseEvent): void => {
    const drawing = target.drawing();
    if (drawing === null) return;
    const bounds = host.getBoundingClientRect();
    const [x, y] = [event.clientX - bounds.left, event.clientY - bounds.top];
    const { left, top, width, height } = drawing.box;
    const isInside =
      x >= left - 2 && x <= left + width + 2 && y >= top - 2 && y <= top + height + 2;
    if (isInside) target.crosshair.point(drawing.x.toValue(x), y);
    else if (target.crosshair.position() !== null) target.crosshair.point(null, null);
  };

  host.addEventListener("pointermove", point, listen);
  // A finger leaves when it is lifted: what a tap shows stays until the next tap, elsewhere.
  host.addEventListener("pointerup", point, listen);
  host.addEventListener(
    "pointerleave",
    ({ pointerType }) => pointerType !== "touch" && target.crosshair.point(null, null),
    listen,
  );
  host.addEventListener("dblclick", () => target.reset(), listen);
  host.addEventListener(
    "wheel",
    (event) => {
      const drawing = target.drawing();
      const range = drawing === null ? null : wheelRange(drawing, event, host);
      if (range === null) return;
      event.preventDefault();
      go(range);
    },
    { ...listen, passive: false },
  );
  host.addEventListener(
    "keydown",
    (event) => {
      const drawing = target.drawing();
      if (
        drawing === null ||
        event.target !== host ||
        event.altKey ||
        event.ctrlKey ||
        event.metaKey
      )
        return;
      if (handleKey(event.key, event.shiftKey, drawing)) event.preventDefault();
    },
    listen,
  );
  host.addEventListener(
    "focus",
    () => host.setAttribute("aria-label", describe(target.drawing())),
    listen,
  );
  host.addEventListener("blur", () => target.crosshair.point(null, null), listen);

  const handleKey = (key: string, isShifted: boolean, drawing: LineDrawing): boolean => {
    const direction = key === "ArrowLeft" ? -1 : key === "ArrowRight" ? 1 : 0;
    if (direction !== 0 && isShifted)
      go(moveRange(drawing.x.kind, drawing.x, { shift: direction * KEY_SHIFT }));
    else if (direction !== 0) stepTo(neighbour(drawing, target.crosshair.position(), direction));
    else if (key === "+" || key === "=")
      go(moveRange(drawing.x.kind, drawing.x, { zoom: KEY_ZOOM }));
    else if (key === "-") go(moveRange(drawing.x.kind, drawing.x, { zoom: 1 / KEY_ZOOM }));
    else if (key === "0") target.reset();
    else if (key === "Escape" && target.crosshair.position() !== null)
      target.crosshair.point(null, null);
    else return false;
    return true;
  };
  const stepTo = (x: number | null): void => {
    const drawing = target.drawing();
    if (x === null || drawing === null) return;
    target.crosshair.point(x, null);
    const readout = readAt(drawing, x, null);
    if (readout === null) return;
    const values = readout.readings.map((reading) => readingText(reading, drawing));
    status.textContent = [readoutTitle(readout, drawing), ...values, ...spans(readout)].join(", ");
  };

  return () => {
    clearTimeout(timer);
    ended.abort();
  };
}

/** The range a wheel turn asks for: with ctrl or cmd a zoom about the pointer, sideways a shift, otherwise none. */
function wheelRange(drawing: LineDrawing, event: WheelEvent, host: HTMLElement): Range | null {
  const { box } = drawing;
  if (event.ctrlKey || event.metaKey) {
    const anchor = (event.clientX - host.getBoundingClientRect().left - box.left) / box.width;
    return moveRange(drawing.x.kind, drawing.x, {
      zoom: ZOOM_PER_WHEEL_PX ** event.deltaY,
      anchor: Math.max(0, Math.min(1, anchor)),
    });
  }
  const sideways = event.shiftKey && event.deltaX === 0 ? event.deltaY : event.deltaX;
  if (Math.abs(sideways) <= Math.abs(event.shiftKey ? 0 : event.deltaY)) return null;
  return moveRange(drawing.x.kind, drawing.x, { shift: sideways / box.width });
}

/** The next logged x of any series in a direction, from the middle of the view if there is no position yet. */
export function neighbour(
  drawing: Pick<LineDrawing, "traces" | "x">,
  from: number | null,
  direction: -1 | 1,
): number | null {
  const start = from ?? (drawing.x.min + drawing.x.max) / 2;
  let best: number | null = null;
  for (const { x: logged } of drawing.traces) {
    const at = lowerBound(logged, start);
    const index = direction < 0 ? at - 1 : logged[at] === start ? at + 1 : at;
    const x = logged[index];
    if (x === undefined) continue;
    if (best === null || (direction < 0 ? x > best : x < best)) best = x;
  }
  return best;
}

function describe(drawing: LineDrawing | null): string {
  if (drawing === null) return "Chart";
  const names = drawing.traces.slice(0, 8).map((trace) => trace.label);
  const rest = drawing.traces.length > 8 ? ` and ${drawing.traces.length - 8} more` : "";
  return `${drawing.options.title || "Chart"}: ${names.join(", ")}${rest}. Arrow keys read values, plus and minus zoom, 0 resets.`;
}
