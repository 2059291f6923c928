/** Colours of items by one of their values, and the bar that says which value has which colour. */

import { PALETTE, slotColor } from "./palette.ts";
import { rampColor } from "./ramp.ts";
import { textWidth } from "./renderer.ts";
import type { Box, Renderer } from "./renderer.ts";
import type { ChartTheme } from "./theme.ts";
import type { AxisValue, ValueAxis } from "./value-axis.ts";

export interface ColorScale {
  readonly axis: ValueAxis;
  /** Whether low values have the colour that stands out. */
  readonly isLowBest: boolean;
}

/** Lines of one shade are drawn together. */
export const NUM_SHADES = 32;
export const BAR_WIDTH = 78;
const BAR_PX = 10;

/** The shade of a value, the last one stands out most; null for what is not on the axis. */
export function shadeOf({ axis, isLowBest }: ColorScale, value: AxisValue): number | null {
  const position = axis.place(value);
  if (position < -1) return null;
  const share = Math.max(0, Math.min(1, position));
  return Math.round((isLowBest ? 1 - share : share) * (NUM_SHADES - 1));
}

/** Names have colours of the palette, as far as there are enough. */
export function hasNames({ axis }: ColorScale): boolean {
  return (
    axis.kind === "category" &&
    axis.ticks.length <= PALETTE.length &&
    axis.ticks.some(({ label }) => Number.isNaN(Number(label)))
  );
}

export function shadeColor(shade: number | null, theme: ChartTheme): string {
  return shade === null
    ? theme.muted
    : rampColor(shade / (NUM_SHADES - 1), "quality", theme.isDark);
}

export function valueColor(scale: ColorScale, value: AxisValue, theme: ChartTheme): string {
  if (!hasNames(scale)) return shadeColor(shadeOf(scale, value), theme);
  const index = scale.axis.ticks.findIndex(({ position }) => position === scale.axis.place(value));
  return index < 0 ? theme.muted : slotColor(index, theme.isDark);
}

/** Draw the bar at the left of a box, its ticks beside it and its name along the right. */
export function drawColorBar(
  renderer: Renderer,
  box: Box,
  scale: ColorScale,
  theme: ChartTheme,
): void {
  const { axis } = scale;
  const toPixel = (position: number): number => box.top + (1 - position) * box.height;
  if (hasNames(scale)) {
    axis.ticks.forEach(({ position }, index) =>
      renderer.rect(
        { left: box.left, top: toPixel(position) - 5, width: BAR_PX, height: 10 },
        { fill: slotColor(index, theme.isDark) },
      ),
    );
  } else {
    const height = box.height / NUM_SHADES;
    for (let index = 0; index < NUM_SHADES; index++) {
      const shade = scale.isLowBest ? index : NUM_SHADES - 1 - index;
      renderer.rect(
        { left: box.left, top: box.top + index * height, width: BAR_PX, height: height + 0.5 },
        { fill: shadeColor(shade, theme) },
      );
    }
  }
  const every = Math.ceil(axis.ticks.length / Math.max(1, Math.floor(box.height / 14)));
  axis.ticks.forEach(({ position, label }, index) => {
    if (index % every === 0)
      renderer.text(box.left + BAR_PX + 5, toPixel(position), fitText(label, 42), {
        fill: theme.muted,
        size: 10,
      });
  });
  renderer.text(
    box.left + BAR_WIDTH - 8,
    box.top + box.height / 2,
    fitText(axis.name, box.height),
    { fill: theme.ink, size: 10.5, align: "center", isVertical: true },
  );
}

/** A text that fits, without its middle where it is too long: names differ at both ends. */
export function fitText(text: string, width: number, size?: number): string {
  const full = textWidth(text, size);
  if (full <= width) return text;
  const num = Math.max(4, Math.floor((text.length * width) / full) - 1);
  const head = Math.floor(num * 0.4);
  return `${text.slice(0, head)}…${text.slice(text.length - (num - head))}`;
}
