/** A frame whose content is moved by dragging and zoomed with the wheel or the keys + and −; a double click shows the whole. */

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

import "./zoom-frame.css";

const CENTRE = { x: 0, y: 0 };

export interface ZoomFrameProps {
  readonly label: string;
  readonly place: Placement;
  /** Called with the change, so that several frames can share one place. */
  readonly onPlace: (change: (place: Placement) => Placement) => void;
  /** Whether there is nothing to scroll past: the wheel always zooms, and arrow keys do something else. */
  readonly isAlone?: boolean;
  readonly ratio?: string;
  readonly children: ComponentChildren;
}

export function ZoomFrame({
  label,
  place,
  onPlace,
  isAlone = false,
  ratio,
  children,
}: ZoomFrameProps): JSX.Element {
  const frame = useRef<HTMLDivElement>(null);
  const [grip, setGrip] = useState<{ readonly x: number; readonly y: number } | null>(null);
  const zoom = (factor: number, at = CENTRE): void =>
    onPlace((before) => zoomedAt(before, factor, at));
  useEffect(() => {
    const element = frame.current!;
    const wheel = (event: WheelEvent): void => {
      // A page that is scrolled past is not to be caught by the picture.
      if (!isAlone && !event.ctrlKey && !event.metaKey && document.activeElement !== element)
        return;
      event.preventDefault();
      const box = element.getBoundingClientRect();
      zoom(event.deltaY < 0 ? ZOOM_STEP : 1 / ZOOM_STEP, {
        x: event.clientX - box.left - box.width / 2,
        y: event.clientY - box.top - box.height / 2,
      });
    };
    element.addEventListener("wheel", wheel, { passive: false });
    return () => element.removeEventListener("wheel", wheel);
  }, []);
  const move = (x: number, y: number) => (): void =>
    onPlace((at) => ({ ...at, x: at.x + x, y: at.y + y }));
  const keys: Record<string, () => void> = {
    "+": () => zoom(ZOOM_STEP),
    "=": () => zoom(ZOOM_STEP),
    "-": () => zoom(1 / ZOOM_STEP),
    "0": () => onPlace(() => WHOLE),
    ...(isAlone
      ? {}
      : {
          ArrowLeft: move(40, 0),
          ArrowRight: move(-40, 0),
          ArrowUp: move(0, 40),
          ArrowDown: move(0, -40),
        }),
  };
  return (
    <div
      ref={frame}
      class={`picture${grip === null ? "" : " is-held"}`}
      tabIndex={0}
      role="group"
      aria-label={`${label}: drag to move, plus and minus to zoom, 0 for the whole`}
      style={{ aspectRatio: ratio, touchAction: place.scale === 1 ? undefined : "none" }}
      onDblClick={() => onPlace(() => WHOLE)}
      onKeyDown={(event) => {
        if (keys[event.key] === undefined) return;
        event.preventDefault();
        event.stopPropagation();
        keys[event.key]!();
      }}
      onPointerDown={(event) => {
        if (event.pointerType === "touch" && place.scale === 1) return;
        event.currentTarget.setPointerCapture(event.pointerId);
        setGrip({ x: event.clientX - place.x, y: event.clientY - place.y });
      }}
      onPointerMove={(event) =>
        grip !== null &&
        onPlace((at) => ({ ...at, x: event.clientX - grip.x, y: event.clientY - grip.y }))
      }
      onPointerUp={() => setGrip(null)}
      onPointerCancel={() => setGrip(null)}
    >
      <div
        class="picture-content"
        style={{ transform: `translate(${place.x}px, ${place.y}px) scale(${place.scale})` }}
      >
        {children}
      </div>
    </div>
  );
}

export function ZoomTools({
  place,
  onPlace,
}: Pick<ZoomFrameProps, "place" | "onPlace">): JSX.Element {
  const zoom = (factor: number): void => onPlace((before) => zoomedAt(before, factor, CENTRE));
  return (
    <div class="picture-tools">
      <button type="button" class="button" aria-label="Zoom in" onClick={() => zoom(ZOOM_STEP)}>
        +
      </button>
      <button
        type="button"
        class="button"
        aria-label="Zoom out"
        onClick={() => zoom(1 / ZOOM_STEP)}
      >
        −
      </button>
      <button type="button" class="button" onClick={() => onPlace(() => WHOLE)}>
        Whole
      </button>
      <span class="section-note">{Math.round(place.scale * 100)}&nbsp;%</span>
    </div>
  );
}

export interface Placement {
  readonly scale: number;
  readonly x: number;
  readonly y: number;
}

export const WHOLE: Placement = { scale: 1, x: 0, y: 0 };
export const ZOOM_STEP = 1.25;
const LEAST = 0.25;
const MOST = 40;

/** Zoom so that the point under the pointer stays where it is. */
export function zoomedAt(
  { scale, x, y }: Placement,
  factor: number,
  at: { readonly x: number; readonly y: number },
): Placement {
  const next = Math.max(LEAST, Math.min(MOST, scale * factor));
  const moved = next / scale;
  return { scale: next, x: at.x - (at.x - x) * moved, y: at.y - (at.y - y) * moved };
}

/** The size a picture says it has, by its `viewBox` or its width and height; null when it says none. */
export function picturedSize(
  svg: string,
): { readonly width: number; readonly height: number } | null {
  const head = /<svg\b[^>]*>/i.exec(svg)?.[0] ?? "";
  const box =
    /\bviewBox\s*=\s*["']\s*[-\d.e+]+[\s,]+[-\d.e+]+[\s,]+([\d.e+]+)[\s,]+([\d.e+]+)/i.exec(head);
  const plain = [
    /\bwidth\s*=\s*["']([\d.]+)/i.exec(head)?.[1],
    /\bheight\s*=\s*["']([\d.]+)/i.exec(head)?.[1],
  ];
  const [width, height] = (box === null ? plain : [box[1], box[2]]).map(Number);
  return width !== undefined && height !== undefined && width > 0 && height > 0
    ? { width, height }
    : null;
}
