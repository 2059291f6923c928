/** The colours of runs: chosen by hand, or by a value of the config. */

import { ownSlot, rangeSlot } from "../chart/index.ts";
import type { RunRow } from "../wire.ts";
import { configText } from "./config.ts";

/** Up to so many values have colours of the palette; more numbers have shades of a range. */
const MOST_NAMED = 12;

/** One value and its colour, for the key of the colours. */
export interface ColorKey {
  readonly text: string;
  readonly slot: number;
  readonly count: number;
}

export interface Coloring {
  readonly slots: ReadonlyMap<string, number>;
  /** Ascending; of a range some of its values. */
  readonly keys: readonly ColorKey[];
  readonly isRange: boolean;
}

/** The colours that were chosen for runs, `id:rrggbb`. */
export function chosenSlots(colors: readonly string[]): ReadonlyMap<string, number> {
  return new Map(colors.flatMap((one) => {
    const [, id, color] = /^(.+):([0-9a-f]{6})$/.exec(one) ?? [];
    return id === undefined || color === undefined ? [] : [[id, ownSlot(`#${color}`)] as const];
  }));
}

/** The list with another colour, such as `#3d68ca`, of one run; null gives the choice back. */
export function withColor(colors: readonly string[], id: string, color: string | null): readonly string[] {
  const others = colors.filter((one) => !one.startsWith(`${id}:`));
  return color === null ? others : [...others, `${id}:${color.slice(1).toLowerCase()}`];
}

/** The same colour for runs with the same value of a key of the config. */
export function coloringBy(rows: readonly RunRow[], key: string): Coloring {
  const texts = new Map(rows.map((row) => [row.id, configText(row.config, key)]));
  const counts = new Map<string, number>();
  for (const text of texts.values()) counts.set(text, (counts.get(text) ?? 0) + 1);
  const values = [...counts.keys()].sort(byValue);
  const numbers = values.map(Number);
  const isRange = values.length > MOST_NAMED && numbers.filter(Number.isFinite).length >= values.length - 1;
  const slotOf = (index: number): number => (isRange ? rangeSlot(index / Math.max(1, values.length - 1)) : index);
  const slots = new Map(values.map((text, index) => [text, slotOf(index)]));
  const shown = isRange ? [0, 0.25, 0.5, 0.75, 1].map((share) => values[Math.round(share * (values.length - 1))]!) : values;
  return {
    isRange,
    slots: new Map([...texts].map(([id, text]) => [id, slots.get(text)!])),
    keys: shown.map((text) => ({ text, slot: slots.get(text)!, count: counts.get(text)! })),
  };
}

function byValue(one: string, other: string): number {
  const [a, b] = [Number(one), Number(other)];
  if (Number.isFinite(a) && Number.isFinite(b)) return a - b;
  return Number(Number.isFinite(b)) - Number(Number.isFinite(a)) || (one < other ? -1 : 1);
}
