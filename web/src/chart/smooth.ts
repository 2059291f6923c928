/**
 * Debiased exponential moving averages, over every point as `epochal.series.smooth` computes them, or of slices. Points that are not finite keep their
 * place and count for nothing elsewhere.
 */

/** As requests have it, such as `ema:0.9`: a point counts 0.9 times the one after it. Empty for none. */
export function smoothingText(weight: number): string {
  return weight > 0 ? `ema:${Number(weight.toPrecision(6))}` : "";
}

export function smoothingWeight(text: string): number {
  return Number(text.slice("ema:".length));
}

export function ema(values: Float64Array, weight: number): Float64Array {
  const smoothed = new Float64Array(values.length);
  let [sum, gathered] = [0, 0];
  for (const [index, value] of values.entries()) {
    if (Number.isFinite(value)) [sum, gathered] = [sum * weight + value, gathered * weight + 1];
    smoothed[index] = Number.isFinite(value) ? sum / gathered : value;
  }
  return smoothed;
}

/** What continues a moving average: sum, weight, x of the last point, and a distance that is 0 where every point counts once. */
export type SmoothState = readonly [sum: number, gathered: number, lastX: number, spacing: number];

/** The average after one more finite point. */
export function continued(
  [sum, gathered, , spacing]: SmoothState,
  weight: number,
  x: number,
  y: number,
): SmoothState {
  return [sum * weight + y, gathered * weight + 1, x, spacing];
}

/** Further columns of slices by name: moving averages such as `ema:0.9` at the last point of each. */
export type SliceColumns = Readonly<Record<string, Float64Array>>;

/** What a smoothing of slices is off at most, as a share of the range that a chart with noisy lines shows. */
export const SLICE_ERROR = 0.01;

/** The column of the last points of slices. */
const LAST = "ema:0";

/**
 * The average at the last point of each slice, as a mixture of those that a saved page keeps: the one whose kernel is nearest to it. The last point
 * itself is the average of weight 0, and the shares add up to 1, so that a constant stays what it is.
 */
export function smoothSlices(
  { [LAST]: last, ...columns }: SliceColumns,
  weight: number,
): Float64Array {
  const kept = Object.entries(columns).filter(([name]) => name.startsWith("ema:"));
  const shares = mixture(
    kept.map(([name]) => smoothingWeight(name)),
    weight,
  );
  return last!.map(
    (value, index) =>
      value + kept.reduce((sum, [, column], at) => sum + shares[at]! * (column[index]! - value), 0),
  );
}

/** The shares of known averages, beside the last point, that come closest to another: least squares over their kernels. */
function mixture(weights: readonly number[], weight: number): readonly number[] {
  const product = (one: number, other: number): number =>
    ((1 - one) * (1 - other)) / (1 - one * other);
  // Of kernels less that of the last point, whose products with others are their first values.
  const reduced = (one: number, other: number): number =>
    product(one, other) - product(one, 0) - product(0, other) + 1;
  return solved(
    weights.map((one) => weights.map((other) => reduced(one, other))),
    weights.map((one) => reduced(one, weight)),
  );
}

/** Gaussian elimination with the largest pivot of each column. */
function solved(
  matrix: readonly (readonly number[])[],
  right: readonly number[],
): readonly number[] {
  const rows = matrix.map((row, index) => [...row, right[index]!]);
  const size = rows.length;
  for (let column = 0; column < size; column++) {
    let pivot = column;
    for (let row = column + 1; row < size; row++)
      if (Math.abs(rows[row]![column]!) > Math.abs(rows[pivot]![column]!)) pivot = row;
    [rows[column], rows[pivot]] = [rows[pivot]!, rows[column]!];
    for (let row = 0; row < size; row++) {
      if (row === column) continue;
      const factor = rows[row]![column]! / rows[column]![column]!;
      for (let at = column; at <= size; at++) rows[row]![at]! -= factor * rows[column]![at]!;
    }
  }
  return rows.map((row, index) => row[size]! / row[index]!);
}
