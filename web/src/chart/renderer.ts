/** The drawing interface of charts, implemented for a canvas and for SVG files. Lengths are CSS pixels. */

import type { PathSink } from "./paths.ts";

export interface DrawStyle {
  readonly stroke?: string;
  readonly fill?: string;
  readonly width?: number;
  readonly alpha?: number;
  readonly dash?: readonly number[];
  /** How a stroke ends; round unless it is dashed. */
  readonly cap?: "butt" | "round";
}

export interface TextStyle {
  readonly fill: string;
  readonly size?: number;
  readonly weight?: number;
  readonly align?: "left" | "center" | "right";
  readonly baseline?: "top" | "middle" | "bottom";
  /** Turned a quarter to the left. */
  readonly isVertical?: boolean;
}

export interface Box {
  readonly left: number;
  readonly top: number;
  readonly width: number;
  readonly height: number;
}

export interface Renderer {
  path(ink: DrawStyle, write: (sink: PathSink) => void): void;
  rect(box: Box, ink: DrawStyle): void;
  circle(x: number, y: number, radius: number, ink: DrawStyle): void;
  text(x: number, y: number, text: string, textStyle: TextStyle): void;
  /** Everything `draw` paints is cut off at the box. */
  clip(box: Box, draw: () => void): void;
}

export const FONT =
  'Inter, ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';
export const TEXT_SIZE = 11;

/** A pen on a canvas whose context is scaled to CSS pixels already. */
export function canvasRenderer(context: CanvasRenderingContext2D): Renderer {
  const paint = (ink: DrawStyle, path: Path2D): void => {
    context.globalAlpha = ink.alpha ?? 1;
    if (ink.fill !== undefined) {
      context.fillStyle = ink.fill;
      context.fill(path);
    }
    if (ink.stroke !== undefined) {
      context.strokeStyle = ink.stroke;
      context.lineWidth = ink.width ?? 1;
      // Round joins double the cost of a noisy line where no GPU draws it.
      context.lineJoin = "bevel";
      context.lineCap = ink.cap ?? (ink.dash?.length ? "butt" : "round");
      context.setLineDash([...(ink.dash ?? [])]);
      context.stroke(path);
    }
    context.globalAlpha = 1;
  };
  return {
    path(ink, write) {
      const path = new Path2D();
      write(path);
      paint(ink, path);
    },
    rect(box, ink) {
      if (ink.fill !== undefined) {
        context.globalAlpha = ink.alpha ?? 1;
        context.fillStyle = ink.fill;
        context.fillRect(box.left, box.top, box.width, box.height);
        context.globalAlpha = 1;
      }
      if (ink.stroke !== undefined) {
        const path = new Path2D();
        path.rect(box.left, box.top, box.width, box.height);
        const { fill: _, ...outline } = ink;
        paint(outline, path);
      }
    },
    circle(x, y, radius, ink) {
      const path = new Path2D();
      path.arc(x, y, radius, 0, Math.PI * 2);
      paint(ink, path);
    },
    text(x, y, text, textStyle) {
      context.font = `${textStyle.weight ?? 400} ${textStyle.size ?? TEXT_SIZE}px ${FONT}`;
      context.fillStyle = textStyle.fill;
      context.textAlign = textStyle.align ?? "left";
      context.textBaseline = textStyle.baseline ?? "middle";
      context.save();
      context.translate(x, y);
      if (textStyle.isVertical) context.rotate(-Math.PI / 2);
      context.fillText(text, 0, 0);
      context.restore();
    },
    clip(box, draw) {
      context.save();
      context.beginPath();
      context.rect(box.left, box.top, box.width, box.height);
      context.clip();
      draw();
      context.restore();
    },
  };
}

/** The same pen, everything a little lower. */
export function shifted(renderer: Renderer, down: number): Renderer {
  const moved = (box: Box): Box => ({ ...box, top: box.top + down });
  return {
    path: (ink, write) =>
      renderer.path(ink, (sink) =>
        write({
          moveTo: (x, y) => sink.moveTo(x, y + down),
          lineTo: (x, y) => sink.lineTo(x, y + down),
          closePath: () => sink.closePath(),
        }),
      ),
    rect: (box, ink) => renderer.rect(moved(box), ink),
    circle: (x, y, radius, ink) => renderer.circle(x, y + down, radius, ink),
    text: (x, y, text, textStyle) => renderer.text(x, y + down, text, textStyle),
    clip: (box, draw) => renderer.clip(moved(box), draw),
  };
}

/** Width of a text in the chart's font, estimated without a canvas: figures are tabular, letters about as wide. */
export function textWidth(text: string, size = TEXT_SIZE): number {
  let units = 0;
  for (const letter of text)
    units += /[.,:;il|'!\u202f ]/.test(letter) ? 0.32 : /[MWmw%—]/.test(letter) ? 0.86 : 0.6;
  return units * size;
}
