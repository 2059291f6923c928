/**
 * Series colours. A slot is a number that a series keeps for life; the theme decides which of two shades is drawn.
 *
 * The shades were searched in OKLCH, one hue window a slot, for the largest smallest distance between any two in normal
 * sight and under protanopia, deuteranopia and tritanopia (Machado, Oliveira and Fernandes 2009), with at least 3:1
 * against a white page and 4:1 against a dark one. Beyond twelve series colours repeat with a dash, so that no two look alike up to thirty-six.
 */

import { mixed } from "./ramp.ts";

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

/** The first of the palette; the last three are so dark or grey that a run alone never has them. */
const NUM_BRIGHT = 9;
const DASHES: readonly (readonly number[])[] = [[], [6, 3], [2, 2.5]];
const FNV_OFFSET = 0x811c9dc5;
const FNV_PRIME = 0x01000193;

/** Slots from here on are colours themselves: what somebody chose, or a shade of a range. */
const OWN_COLORS = 0x1000000;

/** The slot of a colour such as `#3d68ca`. */
export function ownSlot(color: string): number {
  return OWN_COLORS + parseInt(color.slice(1), 16);
}

/** The slot of another line of the same run, such as that of a rank. */
export function besideSlot(slot: number, offset: number): number {
  return slot >= OWN_COLORS ? slot : slot + offset;
}

/** Colours for a range of values, of about equal lightness so that each stands out from both pages. */
const RANGE_COLORS: readonly string[] = ["#4a63c9", "#1488b8", "#15967d", "#6f9420", "#b87f0c", "#d05a2a", "#c2346b"];

/** The slot of a share between 0 and 1 of a range of values. */
export function rangeSlot(share: number): number {
  const at = Math.max(0, Math.min(1, share)) * (RANGE_COLORS.length - 1);
  const below = Math.min(RANGE_COLORS.length - 2, Math.floor(at));
  return ownSlot(mixed(RANGE_COLORS[below]!, RANGE_COLORS[below + 1]!, at - below));
}

export function slotColor(slot: number, isDark: boolean): string {
  if (slot >= OWN_COLORS) return `#${(slot - OWN_COLORS).toString(16).padStart(6, "0")}`;
  const shade = PALETTE[slot % PALETTE.length]!;
  return isDark ? shade.dark : shade.light;
}

/** The same colour for style sheets, which choose the shade by themselves. */
export function slotCss(slot: number): string {
  if (slot >= OWN_COLORS) return slotColor(slot, false);
  const shade = PALETTE[slot % PALETTE.length]!;
  return `light-dark(${shade.light}, ${shade.dark})`;
}

/** A sample of a line for style sheets: with gaps where the line is dashed. */
export function slotSample(slot: number): string {
  const color = slotCss(slot);
  const [on, off] = slotDash(slot);
  return on === undefined || off === undefined ? color : `repeating-linear-gradient(90deg, ${color} 0 ${on / 1.5}px, transparent 0 ${(on + off) / 1.5}px)`;
}

export function slotDash(slot: number): readonly number[] {
  return slot >= OWN_COLORS ? [] : DASHES[Math.floor(slot / PALETTE.length) % DASHES.length]!;
}

/**
 * Give every id a slot: the one its hash names, or the next free one. Ids that have a slot in `taken` keep it, so a colour
 * never changes while a run stays on the page; an id alone always gets the same colour anywhere.
 */
export function assignSlots(ids: readonly string[], taken: ReadonlyMap<string, number> = new Map()): Map<string, number> {
  const slots = new Map<string, number>();
  const used = new Set<number>();
  for (const id of ids) {
    const slot = taken.get(id);
    if (slot === undefined || used.has(slot)) continue;
    slots.set(id, slot);
    used.add(slot);
  }
  for (const id of ids) {
    if (slots.has(id)) continue;
    const slot = freeSlot(hash(id), used);
    slots.set(id, slot);
    used.add(slot);
  }
  return slots;
}

function freeSlot(start: number, used: ReadonlySet<number>): number {
  const size = PALETTE.length;
  for (let layer = 0; ; layer++) {
    for (let probe = 0; probe < size; probe++) {
      // 4 is prime to the number of bright colours: probing visits all of them and skips the neighbours. Dark ones come last.
      const slot = layer * size + (probe < NUM_BRIGHT ? (start + probe * 4) % NUM_BRIGHT : probe);
      if (!used.has(slot)) return slot;
    }
  }
}

function hash(id: string): number {
  let state = FNV_OFFSET;
  for (let index = 0; index < id.length; index++) {
    state = Math.imul(state ^ id.charCodeAt(index), FNV_PRIME) >>> 0;
  }
  return state;
}
