/** What lies behind and along the lines of a chart: vertical marks of what happened, and a strip of stretches along the bottom. */

import { verticalLine } from "../axes.ts";
import { slotColor } from "../palette.ts";
import type { Renderer } from "../renderer.ts";
import type { ChartTheme } from "../theme.ts";
import type { Mark, MarkKind, Stretch } from "./options.ts";
import type { LineDrawing } from "./drawing.ts";

const STRIP_HEIGHT = 4;
const CROSS_HALF = 2.75;
/** Marks that repeat are drawn no closer than this: a wall of lines says nothing. */
const CLOSEST_PX: Readonly<Partial<Record<MarkKind, number>>> = {
  epoch: 40,
  checkpoint: 6,
  throttle: 4,
};
const DASHES: Readonly<Partial<Record<MarkKind, readonly number[]>>> = {
  restart: [3, 3],
  checkpoint: [1, 4],
  throttle: [2, 3],
};

/** Colour of a mark's line and glyph. */
export function markColor(mark: Pick<Mark, "kind" | "severity">, theme: ChartTheme): string {
  if (mark.kind === "epoch") return theme.line;
  if (mark.kind === "restart") return theme.accent;
  if (mark.kind === "note" || mark.kind === "checkpoint") return theme.muted;
  return { info: theme.muted, warning: theme.warning, critical: theme.critical }[
    mark.severity ?? "warning"
  ];
}

export function stretchColor({ tone }: Pick<Stretch, "tone">, theme: ChartTheme): string {
  return {
    quiet: theme.muted,
    good: theme.good,
    info: theme.accent,
    warning: theme.warning,
    critical: theme.critical,
  }[tone];
}

export function drawMarks(renderer: Renderer, drawing: LineDrawing, theme: ChartTheme): void {
  const last = new Map<MarkKind, number>();
  for (const mark of drawing.options.marks) {
    if (mark.on !== undefined) continue;
    const px = Math.round(drawing.x.toPixel(mark.x)) + 0.5;
    const { box } = drawing;
    if (!(px >= box.left - 1 && px <= box.left + box.width + 1)) continue;
    if (px - (last.get(mark.kind) ?? -Infinity) < (CLOSEST_PX[mark.kind] ?? 0)) continue;
    last.set(mark.kind, px);
    drawMark(renderer, drawing, mark, px, theme);
  }
}

/** Where a member of a group ends: a cross on the group's line. */
export function drawCrosses(renderer: Renderer, drawing: LineDrawing, theme: ChartTheme): void {
  for (const { x, on } of drawing.options.marks) {
    if (on === undefined) continue;
    const [px, py] = [drawing.x.toPixel(x), drawing.y.toPixel(on.y)];
    if (Number.isFinite(px) && Number.isFinite(py))
      drawCross(renderer, px, py, slotColor(on.slot, theme.isDark), theme.surface);
  }
}

/** A cross that stands out from what it lies on. */
export function drawCross(
  renderer: Renderer,
  x: number,
  y: number,
  stroke: string,
  halo: string,
): void {
  for (const ink of [
    { stroke: halo, width: 4 },
    { stroke, width: 1.75 },
  ]) {
    renderer.path(ink, (sink) => {
      sink.moveTo(x - CROSS_HALF, y - CROSS_HALF);
      sink.lineTo(x + CROSS_HALF, y + CROSS_HALF);
      sink.moveTo(x - CROSS_HALF, y + CROSS_HALF);
      sink.lineTo(x + CROSS_HALF, y - CROSS_HALF);
    });
  }
}

function drawMark(
  renderer: Renderer,
  { box }: LineDrawing,
  mark: Mark,
  px: number,
  theme: ChartTheme,
): void {
  const stroke = markColor(mark, theme);
  if (mark.kind === "epoch") {
    verticalLine(renderer, px, box, stroke);
    return;
  }
  const bottom = box.top + box.height;
  renderer.path(
    { stroke, alpha: mark.kind === "checkpoint" ? 0.4 : 0.75, dash: DASHES[mark.kind] ?? [] },
    (sink) => {
      sink.moveTo(px, box.top);
      sink.lineTo(px, bottom);
    },
  );
  if (mark.kind === "finding") renderer.circle(px, box.top + 4, 3.5, { fill: stroke });
  if (mark.kind === "checkpoint")
    renderer.rect({ left: px - 2.5, top: bottom - 11, width: 5, height: 5 }, { fill: stroke });
  if (mark.kind === "throttle") {
    renderer.path({ fill: stroke }, (sink) => {
      sink.moveTo(px - 4, box.top);
      sink.lineTo(px + 4, box.top);
      sink.lineTo(px, box.top + 6);
      sink.closePath();
    });
  }
}

export function drawStretches(
  renderer: Renderer,
  { box, x, options: { stretches } }: LineDrawing,
  theme: ChartTheme,
): void {
  const top = box.top + box.height - STRIP_HEIGHT;
  for (const stretch of stretches) {
    const from = Math.max(box.left, x.toPixel(stretch.min));
    const to = Math.min(box.left + box.width, x.toPixel(stretch.max));
    if (to > from)
      renderer.rect(
        { left: from, top, width: Math.max(1, to - from - 1), height: STRIP_HEIGHT },
        { fill: stretchColor(stretch, theme), alpha: 0.85 },
      );
  }
}

/** The stretch that an x lies in. */
export function stretchAt(stretches: readonly Stretch[], x: number): Stretch | undefined {
  return stretches.findLast(({ min, max }) => x >= min && x <= max);
}
