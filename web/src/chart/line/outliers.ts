/** Lines that would flatten all others, and the range in which the others can be told apart. */

import { rangeWithoutOutliers, sortedFinite } from "../quantile.ts";
import type { Range } from "../scale.ts";

/** The values of one line, those in view. */
export interface Values {
  readonly id: string;
  readonly label: string;
  readonly parts: readonly Float64Array[];
}

export interface Clip {
  readonly range: Range;
  /** Labels of the lines that go beyond it. */
  readonly beyond: readonly string[];
}

/** Where the other lines fill less than this share of the axis, their courses cannot be read. */
const FLAT = 0.05;
/** A line that is never among the others is left out only when it is so many times as large. */
const FAR = 10;

/**
 * The range without the lines that flatten the rest, null where none does. At least half of the lines are kept whole, and of the others what
 * they usually do; the chosen line never goes out of sight.
 */
export function clipRuns(lines: readonly Values[], chosen: string | null): Clip | null {
  const all = lines.flatMap((line) => {
    const range = rangeOf(line.parts);
    return range === null ? [] : [{ ...line, range }];
  });
  if (all.length < 2) return null;
  const middle = median(all.flatMap(({ range: { min, max } }) => [min, max]));
  const distance = ({ min, max }: Range): number => Math.max(max - middle, middle - min);
  all.sort((one, other) => distance(one.range) - distance(other.range));
  const full = union(all.map(({ range }) => range));
  const limit = FLAT * (full.max - full.min);
  // The more lines are kept the better: try with all but one first.
  for (let numKept = all.length - 1; numKept * 2 >= all.length; numKept--) {
    const kept = union(all.slice(0, numKept).map(({ range }) => range));
    const span = kept.max - kept.min;
    if (span === 0 || span >= limit) continue;
    const size = Math.max(Math.abs(kept.min), Math.abs(kept.max));
    const isClear = all
      .slice(numKept)
      .every(
        ({ id, parts, range }) =>
          rangeOf(parts, kept) !== null ||
          (id !== chosen &&
            numKept * 2 > all.length &&
            Math.max(range.max, -range.min) > FAR * size),
      );
    if (!isClear) continue;
    const range = union(
      all.flatMap(
        (line, index) => (index < numKept ? kept : usualPart(line.parts, kept, limit)) ?? [],
      ),
    );
    return {
      range,
      beyond: all
        .filter((line) => line.range.min < range.min || line.range.max > range.max)
        .map(({ label }) => label),
    };
  }
  return null;
}

/** What a clipped line does but for a few points or, where that is too much, what lies within once more the range of the others. */
function usualPart(parts: readonly Float64Array[], kept: Range, limit: number): Range | null {
  const usual = rangeWithoutOutliers(
    sortedFinite(Float64Array.from(parts.flatMap((part) => [...part]))),
  );
  if (usual !== null && Math.max(kept.max, usual.max) - Math.min(kept.min, usual.min) < limit)
    return usual;
  const span = kept.max - kept.min;
  return rangeOf(parts, { min: kept.min - span, max: kept.max + span });
}

/** The finite values within a range, from the smallest to the largest. */
function rangeOf(
  parts: readonly Float64Array[],
  within: Range = { min: -Infinity, max: Infinity },
): Range | null {
  let min = Infinity;
  let max = -Infinity;
  for (const part of parts) {
    for (let index = 0; index < part.length; index++) {
      const value = part[index]!;
      if (!(value >= within.min && value <= within.max)) continue;
      if (value < min) min = value;
      if (value > max) max = value;
    }
  }
  return min <= max ? { min, max } : null;
}

function union(ranges: readonly Range[]): Range {
  return {
    min: Math.min(...ranges.map(({ min }) => min)),
    max: Math.max(...ranges.map(({ max }) => max)),
  };
}

function median(values: readonly number[]): number {
  return [...values].sort((one, other) => one - other)[values.length >> 1]!;
}
