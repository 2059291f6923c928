/** One axis of parallel coordinates: numbers by size, anything else by name. */

import { createScale } from "./scale.ts";
import { tickLabel, ticks } from "./ticks.ts";

export type AxisValue = number | string | null;

export interface ParallelAxis {
  readonly name: string;
  readonly ticks: readonly { readonly position: number; readonly label: string }[];
  /** Position from 0 (bottom) to 1 (top) of a number, or of a name. */
  place(value: number | string): number | null;
}

/** Build an axis over the values present; if any of them is text, all are treated as names. */
export function createParallelAxis(name: string, values: readonly AxisValue[], isLog: boolean): ParallelAxis {
  const known = values.filter((value) => value !== null);
  const numbers = known.filter((value): value is number => typeof value === "number");
  return numbers.length === known.length ? numberAxis(name, numbers.filter(Number.isFinite), isLog) : nameAxis(name, known.map(String));
}

/** Where a value stands on an axis; null where it has no place. */
export function axisPosition(axis: ParallelAxis, value: AxisValue): number | null {
  return value === null ? null : axis.place(value);
}

function numberAxis(name: string, numbers: readonly number[], wantsLog: boolean): ParallelAxis {
  if (numbers.length === 0) return { name, ticks: [], place: () => null };
  const min = numbers.reduce((a, b) => Math.min(a, b));
  const max = numbers.reduce((a, b) => Math.max(a, b));
  if (min === max) {
    const only = { position: 0.5, label: tickLabel(min, Math.abs(min) / 100 || 1, "number") };
    return { name, ticks: [only], place: (value) => (value === min ? 0.5 : null) };
  }
  const kind = wantsLog && min > 0 ? "log" : "linear";
  const scale = createScale(kind, { min, max }, 0, 1);
  const { at, labels } = ticks(kind, { min, max }, 5, "number");
  return {
    name,
    ticks: at.map((value, index) => ({ position: scale.toPixel(value), label: labels[index]! })),
    place: (value) => {
      const position = typeof value === "number" ? scale.toPixel(value) : NaN;
      return Number.isFinite(position) ? position : null;
    },
  };
}

function nameAxis(name: string, names: readonly string[]): ParallelAxis {
  const distinct = [...new Set(names)].sort((one, other) => one.localeCompare(other, "en", { numeric: true }));
  const position = new Map(distinct.map((text, index) => [text, distinct.length > 1 ? index / (distinct.length - 1) : 0.5]));
  return {
    name,
    ticks: distinct.map((label) => ({ position: position.get(label)!, label })),
    place: (value) => position.get(String(value)) ?? null,
  };
}
