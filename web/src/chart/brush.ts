/** Parts of axes that are kept: which items pass, and what a drag along an axis selects. */

import { categoryName, isNonfinite, MISSING, NONFINITE, OVER, UNDER } from "./value-axis.ts";
import type { AxisPixels, AxisValue, ValueAxis } from "./value-axis.ts";

export interface Brush {
  /** Numbers from the first to the second. */
  readonly range: readonly [low: number, high: number] | null;
  /** Categories; `nan` keeps what is not finite, null what has no value. */
  readonly names: readonly (string | null)[];
}

export function passes({ range, names }: Brush, value: AxisValue): boolean {
  if (value === null) return names.includes(null);
  if (isNonfinite(value)) return names.includes("nan");
  return (
    names.some((name) => isNameOf(name, value)) ||
    (range !== null && typeof value === "number" && value >= range[0] && value <= range[1])
  );
}

/** Whether a category of a brush is a value; an address may write a number another way, such as `3e-4`. */
export function isNameOf(name: string | null, value: string | number): boolean {
  const own = categoryName(value);
  return (
    name === own ||
    (typeof value === "number" && name !== null && name !== "" && Number(name) === Number(own))
  );
}

/** What lies between two pixels of an axis; null for nothing. */
export function brushBetween(
  axis: ValueAxis,
  pixels: AxisPixels,
  one: number,
  other: number,
): Brush | null {
  const [from, to] = [Math.min(one, other), Math.max(one, other)];
  const holds = (position: number): boolean => {
    const pixel = pixels.toPixel(position);
    return pixel >= from && pixel <= to;
  };
  const has = (lane: number): boolean =>
    axis.lanes.some(({ position }) => position === lane) && holds(lane);
  const names: (string | null)[] = [
    ...(axis.kind === "category"
      ? axis.ticks.filter(({ position }) => holds(position)).map(({ label }) => label)
      : []),
    ...(has(NONFINITE) ? ["nan"] : []),
    ...(has(MISSING) ? [null] : []),
  ];
  const range = axis.kind === "category" ? null : rangeBetween(axis, pixels, from, to, has);
  return range === null && names.length === 0 ? null : { range, names };
}

function rangeBetween(
  axis: ValueAxis,
  pixels: AxisPixels,
  from: number,
  to: number,
  has: (lane: number) => boolean,
): readonly [number, number] | null {
  const ends = [pixels.low, pixels.high].sort((one, other) => one - other) as [number, number];
  const isOn = to >= ends[0] && from <= ends[1];
  if (!isOn)
    return has(OVER)
      ? [axis.valueAt(1), Number.MAX_VALUE]
      : has(UNDER)
        ? [-Number.MAX_VALUE, axis.valueAt(0)]
        : null;
  const positions = [pixels.toPosition(from), pixels.toPosition(to)].sort(
    (one, other) => one - other,
  ) as [number, number];
  // Six digits stand in the address; the ends themselves stay exact.
  const at = (position: number): number =>
    position <= 0 || position >= 1
      ? axis.valueAt(position)
      : Number(axis.valueAt(position).toPrecision(6));
  return [
    has(UNDER) ? -Number.MAX_VALUE : at(positions[0]),
    has(OVER) ? Number.MAX_VALUE : at(positions[1]),
  ];
}

/** The pixels that a brush covers, part by part. */
export function brushParts(
  { range, names }: Brush,
  axis: ValueAxis,
  pixels: AxisPixels,
): readonly (readonly [number, number])[] {
  const half =
    axis.kind === "category"
      ? Math.min(14, Math.abs(pixels.high - pixels.low) / axis.ticks.length / 2)
      : 6;
  const around = (pixel: number): readonly [number, number] => [pixel - half, pixel + half];
  const positions = names.map((name) =>
    name === null
      ? MISSING
      : name === "nan"
        ? NONFINITE
        : (axis.ticks.find(({ label }) => label === name)?.position ?? null),
  );
  const parts = positions
    .filter((position) => position !== null)
    .filter((position) => position >= 0 || axis.lanes.some((lane) => lane.position === position))
    .map((position) => around(pixels.toPixel(position)));
  if (range === null || axis.kind === "category") return parts;
  const ends = range
    .map((value) => pixels.toPixel(axis.place(value)))
    .sort((one, other) => one - other);
  return [...parts, [ends[0]!, ends[1]!]];
}

/** Brushes by column as a text for the address: `{"config:lr":[0.001,0.01],"config:opt":["adam",null]}`. */
export function brushesText(brushes: ReadonlyMap<string, Brush>): string {
  if (brushes.size === 0) return "";
  return JSON.stringify(
    Object.fromEntries(
      [...brushes].map(([id, { range, names }]) => [id, [...(range ?? []), ...names]]),
    ),
  );
}

export function parseBrushes(text: string): ReadonlyMap<string, Brush> {
  try {
    const given: unknown = text === "" ? {} : JSON.parse(text);
    if (typeof given !== "object" || given === null) return new Map();
    return new Map(
      Object.entries(given).flatMap(([id, parts]: [string, unknown]) => {
        if (!Array.isArray(parts)) return [];
        const [low, high] = parts.filter((part): part is number => typeof part === "number");
        const names = parts.filter(
          (part): part is string | null => part === null || typeof part === "string",
        );
        return [
          [id, { range: low === undefined || high === undefined ? null : [low, high], names }] as [
            string,
            Brush,
          ],
        ];
      }),
    );
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    return new Map();
  }
}
