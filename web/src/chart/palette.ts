/**
 * Series colours. A slot is a number that a series keeps for life; the theme decides which of two shades is drawn.
 *
 * The shades were searched in OKLCH, one hue window a slot, for the largest smallest distance between any two in normal
 * sight and under protanopia, deuteranopia and tritanopia (Machado, Oliveira and Fernandes 2009), with at least 3:1
 * against a white page and 4:1 against a dark one. Beyond twelve series colours repeat with a dash, so that no two look alike up to thirty-six.
 */

interface Shade {
  readonly light: string;
  readonly dark: string;
}

export const PALETTE: readonly Shade[] = [
  { light: "#3d68ca", dark: "#707bfd" },
  { light: "#bb5c0c", dark: "#e88b0e" },
  { light: "#3b9463", dark: "#8ccc6b" },
  { light: "#a54391", dark: "#dc53c2" },
  { light: "#0398cd", dark: "#6ec9fe" },
  { light: "#ac312a", dark: "#f04a15" },
  { light: "#6200a0", dark: "#ad90f4" },
  { light: "#a09520", dark: "#f3d928" },
  { light: "#206c58", dark: "#2bf2c5" },
  { light: "#eb4b9f", dark: "#df90a8" },
  { light: "#583400", dark: "#ab8c6b" },
  { light: "#414660", dark: "#758192" },
];

const DASHES: readonly (readonly number[])[] = [[], [6, 3], [2, 2.5]];
const FNV_OFFSET = 0x811c9dc5;
const FNV_PRIME = 0x01000193;

export function slotColor(slot: number, isDark: boolean): string {
  const shade = PALETTE[slot % PALETTE.length]!;
  return isDark ? shade.dark : shade.light;
}

/** The same colour for style sheets, which choose the shade by themselves. */
export function slotCss(slot: number): string {
  const shade = PALETTE[slot % PALETTE.length]!;
  return `light-dark(${shade.light}, ${shade.dark})`;
}

export function slotDash(slot: number): readonly number[] {
  return DASHES[Math.floor(slot / PALETTE.length) % DASHES.length]!;
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
      // 5 is prime to the palette's size: probing visits all slots and skips the neighbours.
      const slot = layer * size + ((start + probe * 5) % size);
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
