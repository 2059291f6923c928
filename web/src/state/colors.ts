/** The colours of runs: chosen by hand, or by a value of the config. */

import { assignSlots, ownSlot, rangeSlot } from "../chart/index.ts";
import type { RunRow } from "../wire.ts";
import { configText } from "./config.ts";
import { groupBy } from "./group-by.ts";

/** From so many values on, numbers have the shades of a range; names have the colours of the palette. */
const FEWEST_ORDERED = 3;
/** A key of colours names no more values of a range. */
const MOST_NAMED = 9;

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
  return new Map(
    colors.flatMap((one) => {
      const [, id, color] = /^(.+):([0-9a-f]{6})$/.exec(one) ?? [];
      return id === undefined || color === undefined ? [] : [[id, ownSlot(`#${color}`)] as const];
    }),
  );
}

/** The list with another colour, such as `#3d68ca`, of one run; null gives the choice back. */
export function withColor(
  colors: readonly string[],
  id: string,
  color: string | null,
): readonly string[] {
  const others = colors.filter((one) => !one.startsWith(`${id}:`));
  return color === null ? others : [...others, `${id}:${color.slice(1).toLowerCase()}`];
}

/** The same colour for runs with the same value of a key of the config. */
export function coloringBy(rows: readonly RunRow[], key: string): Coloring {
  return coloringOf(
    groupBy(
      rows.map((row) => [row.id, configText(row.config, key)] as const),
      ([, text]) => text,
    ),
    ([id]) => id,
  );
}

/** The same colour for the members of each set, by the text that names it: numbers in order have ordered colours. */
export function coloringOf<Member>(
  sets: ReadonlyMap<string, readonly Member[]>,
  idOf: (member: Member) => string,
): Coloring {
  const values = [...sets.keys()].sort(byValue);
  const isRange =
    values.length >= FEWEST_ORDERED &&
    values.filter((text) => text !== "" && Number.isFinite(Number(text))).length >=
      values.length - 1;
  const names = assignSlots(values);
  const slots = new Map(
    values.map((text, index) => [
      text,
      isRange ? rangeSlot(index / (values.length - 1)) : names.get(text)!,
    ]),
  );
  const shown =
    isRange && values.length > MOST_NAMED
      ? [0, 0.25, 0.5, 0.75, 1].map((share) => values[Math.round(share * (values.length - 1))]!)
      : values;
  return {
    isRange,
    slots: new Map(
      [...sets].flatMap(([text, members]) =>
        members.map((member) => [idOf(member), slots.get(text)!] as const),
      ),
    ),
    keys: shown.map((text) => ({ text, slot: slots.get(text)!, count: sets.get(text)!.length })),
  };
}

function byValue(one: string, other: string): number {
  const [a, b] = [Number(one), Number(other)];
  if (Number.isFinite(a) && Number.isFinite(b)) return a - b;
  return Number(Number.isFinite(b)) - Number(Number.isFinite(a)) || (one < other ? -1 : 1);
}
