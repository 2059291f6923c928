/** How coarse a series is where not every point of it is at hand. */

import { formatWhole } from "../../chart/index.ts";
import type { BucketData, SeriesData } from "../../chart/index.ts";
import { SLICE_ERROR } from "../../chart/smooth.ts";
import type { Smoothed } from "../../source/source.ts";

const UNITS: Readonly<Record<string, string>> = {
  step: "steps",
  epoch: "epochs",
  tokens: "tokens",
  wall: "s",
  relative: "s",
};

/** Such as `1 bucket = 40 steps`, of the coarsest of some series; null when all points of all of them are there. */
export function bucketNote(
  parts: readonly { readonly data: SeriesData }[],
  x: string,
): string | null {
  const widths = parts.map(({ data }) => (data.kind === "buckets" ? bucketWidth(data) : 0));
  const widest = Math.max(0, ...widths);
  if (widest === 0) return null;
  return `1 bucket = ${formatWhole(x === "step" || x === "tokens" ? Math.round(widest) : widest)} ${UNITS[x] ?? x}`;
}

/** The same, and how exact smoothed lines are. */
export function archiveNote(
  parts: readonly { readonly data: SeriesData; readonly smoothed?: Smoothed }[],
  x: string,
): string | null {
  const note = bucketNote(parts, x);
  if (
    note === null ||
    !parts.some(({ data, smoothed }) => data.kind === "buckets" && smoothed !== undefined)
  )
    return note;
  return `${note} · smoothed, error below ${formatWhole(SLICE_ERROR * 100)}\u00a0%`;
}

/** The middle distance between slices that hold several points; 0 where each holds one. */
export function bucketWidth({ firstX, count }: BucketData): number {
  const widths: number[] = [];
  for (let index = 0; index + 1 < firstX.length; index++) {
    if (count[index]! > 1) widths.push(firstX[index + 1]! - firstX[index]!);
  }
  return widths.sort((one, other) => one - other)[Math.floor(widths.length / 2)] ?? 0;
}
