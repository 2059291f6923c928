/**
 * Series colours. A slot is a number that a series keeps for life; the theme decides which of two shades is drawn.
 *
 * The shades were searched in OKLCH, one hue window a slot, for the largest smallest distance between any two in normal
 * sight and under protanopia, deuteranopia and tritanopia (Machado, Oliveira and Fernandes 2009), with at least 3:1
 * against a white page and 4:1 against a dark one. Beyond twelve series colours repeat with a dash, so that no two look alike up to thirty-six.
 */

import { rampColor } from "./ramp.ts";

interface Shade {
  readonly light: string;
  readonly dark: string;
}

export const PALETTE: readonly Shade[] = [
  { light: "#3d68ca", dark: "#707bfd" },
  { light: "#bb5c0c", dark: "#e88b0e" },
  { light: "#479355", dark: "#8ccc6b" },
  { light: "#a54391", dark: "#dc53c2" },
  { light: "#0398cd", dark: "#6ec9fe" },
  { light: "#ac312a", dark: "#f04a15" },
  { light: "#6200a0", dark: "#ad90f4" },
  { light: "#a09520", dark: "#f3d928" },
  { light: "#eb4b9f", dark: "#df90a8" },
  { light: "#013b41", dark: "#2bf2c5" },
  { light: "#583400", dark: "#ab8c6b" },
  { light: "#414660", dark: "#758192" },
];

/**
 * How far the colours are from each other: hundredths of OKLab, the distance in normal sight and the smallest in any sight added, in the theme where
 * it is smaller.
 */
const DISTANCES: readonly (readonly number[])[] = [
  [0, 56, 32, 28, 25, 54, 19, 49, 32, 48, 42, 26],
  [56, 0, 25, 26, 51, 18, 45, 22, 21, 48, 21, 39],
  [32, 25, 0, 40, 24, 35, 39, 17, 32, 23, 30, 43],
  [28, 26, 40, 0, 35, 23, 23, 45, 22, 47, 34, 28],
  [25, 51, 24, 35, 0, 55, 23, 40, 31, 24, 42, 43],
  [54, 18, 35, 23, 55, 0, 48, 40, 32, 39, 24, 31],
  [19, 45, 39, 23, 23, 48, 0, 53, 26, 37, 28, 25],
  [49, 22, 17, 45, 40, 40, 53, 0, 39, 35, 47, 58],
  [32, 21, 32, 22, 31, 32, 26, 39, 0, 40, 21, 28],
  [48, 48, 23, 47, 24, 39, 37, 35, 40, 0, 22, 17],
  [42, 21, 30, 34, 42, 24, 28, 47, 21, 22, 0, 20],
  [26, 39, 43, 28, 43, 31, 25, 58, 28, 17, 20, 0],
];

/** The first of the palette; the last three are so dark or grey that few runs never have them. */
export const NUM_BRIGHT = 9;
const DASHES: readonly (readonly number[])[] = [[], [6, 3], [2, 2.5]];
/** What tells the metrics of a chart apart where colours tell the runs apart. */
export const SERIES_DASHES: readonly (readonly number[])[] = [[], [6, 3], [2, 2.5], [9, 3, 2, 3]];

/** Slots from here on are colours themselves, which somebody chose. */
const OWN_COLORS = 0x1000000;
/** Slots from here on are thousandths of a range of values. */
const RANGE = 0x2000000;
/** The faintest colours of the ramp are too faint for a line. */
const RANGE_START = 0.14;

/** The slot of a colour such as `#3d68ca`. */
export function ownSlot(color: string): number {
  return OWN_COLORS + parseInt(color.slice(1), 16);
}

/** The slot of another line of the same run, such as that of a rank. */
export function besideSlot(slot: number, offset: number): number {
  return slot >= OWN_COLORS ? slot : slot + offset;
}

/** The slot of a share between 0 and 1 of ordered values: more of them is darker on a light page and lighter on a dark one. */
export function rangeSlot(share: number): number {
  return RANGE + Math.round(Math.max(0, Math.min(1, share)) * 1000);
}

export function slotColor(slot: number, isDark: boolean): string {
  if (slot >= RANGE)
    return rampColor(RANGE_START + ((1 - RANGE_START) * (slot - RANGE)) / 1000, "quality", isDark);
  if (slot >= OWN_COLORS) return `#${(slot - OWN_COLORS).toString(16).padStart(6, "0")}`;
  const shade = PALETTE[slot % PALETTE.length]!;
  return isDark ? shade.dark : shade.light;
}

/** The same colour for style sheets, which choose the shade by themselves. */
export function slotCss(slot: number): string {
  return `light-dark(${slotColor(slot, false)}, ${slotColor(slot, true)})`;
}

/** A sample of a line for style sheets: with gaps where the line is dashed. */
export function slotSample(slot: number): string {
  return dashSample(slotCss(slot), slotDash(slot));
}

export function dashSample(color: string, [on, off]: readonly number[]): string {
  return on === undefined || off === undefined
    ? color
    : `repeating-linear-gradient(90deg, ${color} 0 ${on / 1.5}px, transparent 0 ${(on + off) / 1.5}px)`;
}

export function slotDash(slot: number): readonly number[] {
  return slot >= OWN_COLORS ? [] : DASHES[Math.floor(slot / PALETTE.length) % DASHES.length]!;
}

/**
 * Give every id a slot: the colour that is farthest from those in use. Ids that have a slot in `taken` keep it, so a colour never changes while a run
 * stays on the page.
 */
export function assignSlots(
  ids: readonly string[],
  taken: ReadonlyMap<string, number> = new Map(),
): Map<string, number> {
  const slots = new Map<string, number>();
  const used = new Set<number>();
  const give = (id: string, slot: number): void => {
    slots.set(id, slot);
    used.add(slot);
  };
  for (const id of ids) {
    const slot = taken.get(id);
    if (slot !== undefined && !used.has(slot)) give(id, slot);
  }
  for (const id of ids) if (!slots.has(id)) give(id, farthestSlot(used));
  return slots;
}

/** Dashed lines only come where every colour is in use. */
function farthestSlot(used: ReadonlySet<number>): number {
  for (let first = 0; ; first += PALETTE.length) {
    const all = [...PALETTE.keys()];
    const free = all.filter((color) => !used.has(first + color));
    if (free.length === 0) continue;
    const bright = free.filter((color) => color < NUM_BRIGHT);
    const others = all.filter((color) => used.has(first + color));
    const apart = (color: number): number =>
      Math.min(...others.map((other) => DISTANCES[color]![other]!));
    return (
      first +
      (bright.length > 0 ? bright : free).reduce((best, color) =>
        apart(color) > apart(best) ? color : best,
      )
    );
  }
}
