/** A scale maps values to pixels along one axis, straight or by logarithm. */

export type ScaleKind = "linear" | "log";

export interface Range {
  readonly min: number;
  readonly max: number;
}

export interface Scale extends Range {
  readonly kind: ScaleKind;
  /** Pixel of a value; values a log scale cannot hold give `-Infinity` before the direction is applied. */
  toPixel(value: number): number;
  toValue(pixel: number): number;
}

/** Build a scale from `min`..`max` to the pixels `from`..`to`; `to` may be the smaller one (y axes). */
export function createScale(kind: ScaleKind, { min, max }: Range, from: number, to: number): Scale {
  const transform = kind === "log" ? Math.log10 : identity;
  const inverse = kind === "log" ? powerOfTen : identity;
  const low = transform(min);
  const span = transform(max) - low || 1;
  const factor = (to - from) / span;
  return {
    kind,
    min,
    max,
    toPixel: (value) => from + (transform(value) - low) * factor,
    toValue: (pixel) => inverse(low + (pixel - from) / factor),
  };
}

const ROUNDING = 1e-12;

/** Widen a range by a share of its length on both sides, in the scale's own measure; a point, or what differs by rounding only, becomes an interval. */
export function padRange(kind: ScaleKind, { min, max }: Range, share: number): Range {
  if (kind === "log") {
    const low = Math.log10(min);
    const high = Math.log10(max);
    const pad = high > low ? (high - low) * share : 0.5;
    return { min: 10 ** (low - pad), max: 10 ** (high + pad) };
  }
  const size = Math.max(Math.abs(min), Math.abs(max));
  const pad = max - min > size * ROUNDING ? (max - min) * share : size * 0.1 || 1;
  return { min: min - pad, max: max + pad };
}

/** Cut or shift a range by a share of its length: `shift` moves it, `zoom` below 1 narrows it about `anchor`. */
export function moveRange(
  kind: ScaleKind,
  range: Range,
  { shift = 0, zoom = 1, anchor = 0.5 }: { shift?: number; zoom?: number; anchor?: number },
): Range {
  const transform = kind === "log" ? Math.log10 : identity;
  const inverse = kind === "log" ? powerOfTen : identity;
  const low = transform(range.min);
  const length = transform(range.max) - low;
  const start = low + length * (shift + anchor * (1 - zoom));
  return { min: inverse(start), max: inverse(start + length * zoom) };
}

function identity(value: number): number {
  return value;
}

function powerOfTen(value: number): number {
  return 10 ** value;
}
