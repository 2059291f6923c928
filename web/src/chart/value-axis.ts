/** An axis over one value of many items: numbers by size or by logarithm, few values as categories, and marked places for what has none on the scale. */

import { createScale } from "./scale.ts";
import type { Range } from "./scale.ts";
import { tickLabel, ticks } from "./ticks.ts";

export type AxisValue = number | string | null;
export type AxisKind = "category" | "linear" | "log";

export interface AxisTick {
  readonly position: number;
  readonly label: string;
}

export interface ValueAxis {
  readonly name: string;
  readonly kind: AxisKind;
  readonly ticks: readonly AxisTick[];
  /** Places beside the scale that values take; their positions are below 0 or above 1. */
  readonly lanes: readonly AxisTick[];
  /** Position from 0 to 1 on the scale, or that of a lane. */
  place(value: AxisValue): number;
  /** The number at a position from 0 to 1; NaN on an axis of categories. */
  valueAt(position: number): number;
}

export interface AxisOptions {
  readonly name: string;
  /** A result rather than a choice: never categories, and values far from all others leave the scale to those. */
  readonly isMeasured?: boolean;
}

export const OVER = 2;
export const UNDER = -1;
/** Not finite: nan and both infinities. */
export const NONFINITE = -2;
export const MISSING = -3;

/** Up to so many different numbers are categories. */
const FEW = 8;
const ALWAYS_FEW = 3;
/** A logarithm needs that much between the smallest and the largest. */
const DECADE = 10;
const FEWEST_TYPICAL = 8;
const NOT_FINITE: ReadonlySet<AxisValue> = new Set(["nan", "inf", "-inf"]);
const BY_TEXT = new Intl.Collator("en", { numeric: true });

export function createValueAxis(
  { name, isMeasured = false }: AxisOptions,
  values: readonly AxisValue[],
): ValueAxis {
  const known = values.filter((value) => value !== null && !isNonfinite(value)) as (
    | number
    | string
  )[];
  const numbers = known
    .filter((value) => typeof value === "number")
    .sort((one, other) => one - other);
  const range =
    numbers.length === 0
      ? { min: 0, max: 0 }
      : isMeasured
        ? typicalRange(numbers)
        : { min: numbers[0]!, max: numbers.at(-1)! };
  const inside = numbers.filter((value) => value >= range.min && value <= range.max);
  const kind = axisKind(known, inside, isMeasured);
  const isScale = kind !== "category";
  const lanes = [
    ...(isScale && numbers.at(-1)! > range.max
      ? [{ position: OVER, label: `> ${shortNumber(range.max, 3)}` }]
      : []),
    ...(isScale && numbers[0]! < range.min
      ? [{ position: UNDER, label: `< ${shortNumber(range.min, 3)}` }]
      : []),
    ...(values.some(isNonfinite) ? [{ position: NONFINITE, label: "nan" }] : []),
    ...(values.includes(null) ? [{ position: MISSING, label: "none" }] : []),
  ];
  return { name, lanes, ...(isScale ? scaleAxis(kind, range) : categoryAxis(known, isMeasured)) };
}

/** Whether values are categories, or numbers that are spread evenly by size or by logarithm. */
export function axisKind(
  known: readonly (number | string)[],
  sorted: readonly number[],
  isMeasured: boolean,
): AxisKind {
  if (known.length === 0 || known.some((value) => typeof value === "string")) return "category";
  const numDistinct = new Set(known).size;
  if (
    !isMeasured &&
    numDistinct <= FEW &&
    (numDistinct <= ALWAYS_FEW || known.length >= 2 * numDistinct)
  )
    return "category";
  const [min, max] = [sorted[0]!, sorted.at(-1)!];
  if (!(min > 0) || max / min < DECADE) return "linear";
  return unevenness(sorted.map(Math.log)) < unevenness(sorted) ? "log" : "linear";
}

/** The largest distance between sorted numbers and as many that are spread evenly, as a share of all. */
function unevenness(sorted: readonly number[]): number {
  const [min, max] = [sorted[0]!, sorted.at(-1)!];
  return sorted.reduce(
    (most, value, index) =>
      Math.max(most, Math.abs((value - min) / (max - min) - (index + 0.5) / sorted.length)),
    0,
  );
}

/** The range of sorted numbers without those that are far from all others, by size and by logarithm. */
export function typicalRange(sorted: readonly number[]): Range {
  const [min, max] = [sorted[0]!, sorted.at(-1)!];
  if (sorted.length < FEWEST_TYPICAL) return { min, max };
  const [low, high] = [
    sorted[Math.floor(sorted.length / 4)]!,
    sorted[Math.floor((3 * sorted.length) / 4)]!,
  ];
  const reach = 10 * Math.max(high - low, Math.abs(high) * 0.05);
  const factor = low > 0 ? Math.max(high / low, 1.25) ** 3 : 1;
  const fits = (value: number): boolean =>
    (value >= low - reach && value <= high + reach) ||
    (low > 0 && value >= low / factor && value <= high * factor);
  return { min: sorted.find(fits)!, max: sorted.findLast(fits)! };
}

export function isNonfinite(value: AxisValue): boolean {
  return typeof value === "number" ? !Number.isFinite(value) : NOT_FINITE.has(value);
}

/** A number with few digits, as the commands write it: `3e-5`, `0.0003`, `0.0123457`, `12`. */
export function shortNumber(value: number, digits = 6): string {
  const size = Math.abs(value);
  if (size === 0 || (size >= 1e-4 && size < 1e6)) return String(Number(value.toPrecision(digits)));
  return value.toExponential(digits - 1).replace(/\.?0*e\+?/, "e");
}

/** What a category is called, on its axis and in a brush. */
export function categoryName(value: number | string): string {
  return typeof value === "number" ? shortNumber(value) : value;
}

function offScale(value: AxisValue): number | null {
  return value === null ? MISSING : isNonfinite(value) ? NONFINITE : null;
}

function scaleAxis(kind: "linear" | "log", range: Range): Omit<ValueAxis, "name" | "lanes"> {
  const { min, max } = range;
  if (min === max) {
    const only = { position: 0.5, label: tickLabel(min, Math.abs(min) / 100 || 1, "number") };
    return {
      kind,
      ticks: [only],
      place: (value) =>
        offScale(value) ?? (Number(value) > max ? OVER : Number(value) < min ? UNDER : 0.5),
      valueAt: () => min,
    };
  }
  const scale = createScale(kind, range, 0, 1);
  const { at, labels } = ticks(kind, range, 5, "number");
  return {
    kind,
    ticks: at.map((value, index) => ({ position: scale.toPixel(value), label: labels[index]! })),
    place(value) {
      const off = offScale(value);
      if (off !== null) return off;
      const number = Number(value);
      return number > max
        ? OVER
        : number < min
          ? UNDER
          : Number.isNaN(number)
            ? MISSING
            : scale.toPixel(number);
    },
    valueAt: (position) => (position <= 0 ? min : position >= 1 ? max : scale.toValue(position)),
  };
}

function categoryAxis(
  known: readonly (number | string)[],
  isInOrder: boolean,
): Omit<ValueAxis, "name" | "lanes"> {
  const distinct = [...new Set(known)];
  if (!isInOrder)
    distinct.sort((one, other) =>
      typeof one === "number" && typeof other === "number"
        ? one - other
        : BY_TEXT.compare(String(one), String(other)),
    );
  const labels = [...new Set(distinct.map(categoryName))];
  const position = new Map(labels.map((label, index) => [label, (index + 0.5) / labels.length]));
  return {
    kind: "category",
    ticks: labels.map((label) => ({ position: position.get(label)!, label })),
    place: (value) => offScale(value) ?? position.get(categoryName(value!)) ?? MISSING,
    valueAt: () => NaN,
  };
}

/** Where positions of an axis are in pixels: the scale, with room for lanes at both ends. */
export interface AxisPixels {
  toPixel(position: number): number;
  /** From 0 to 1, beyond the scale the nearer end. */
  toPosition(pixel: number): number;
  /** Pixels of the ends of the scale. */
  readonly low: number;
  readonly high: number;
}

/** From the pixel of the low end to that of the high end; lanes are `step` pixels apart. */
export function axisPixels(
  lanes: readonly AxisTick[],
  from: number,
  to: number,
  step: number,
): AxisPixels {
  const sign = Math.sign(to - from);
  const below = [
    ...new Set(lanes.map(({ position }) => position).filter((position) => position < 0)),
  ].sort((one, other) => other - one);
  const low = from + sign * step * below.length;
  const high = lanes.some(({ position }) => position === OVER) ? to - sign * step : to;
  return {
    low,
    high,
    toPixel: (position) =>
      position < 0
        ? low - sign * step * (below.indexOf(position) + 1)
        : position > 1
          ? high + sign * step
          : low + position * (high - low),
    toPosition: (pixel) => Math.max(0, Math.min(1, (pixel - low) / (high - low))),
  };
}
