/** From series of runs to the lines of a chart: labels, colours, ranks, and groups drawn as their mean. */

import { aggregate, besideSlot, formatNumberOf, overlaid } from "../../chart/index.ts";
import type { AxisFormat, Series, SpreadKind } from "../../chart/index.ts";
import { samplesOf } from "../../chart/series.ts";
import type { SeriesPart } from "../../source/source.ts";

/** Runs whose lines are drawn as one. */
export interface LineGroup {
  readonly title: string;
  readonly runs: readonly string[];
}

/** The id of a group's line. */
export function groupId(title: string): string {
  return `group:${title}`;
}

export interface LineRequest {
  /** By run, in the order of the list. */
  readonly parts: ReadonlyMap<string, readonly SeriesPart[]>;
  readonly label: (run: string) => string;
  readonly slot: (run: string) => number;
  /** Null to draw every run by itself. */
  readonly groups: readonly LineGroup[] | null;
  /** A run that has a line of its own beside the groups. */
  readonly alone?: string | null;
  readonly spread: SpreadKind;
  /** The line of a group is its median. */
  readonly isMedian?: boolean;
  /** How the ranks of a run are drawn: each, or their mean between the smallest and the largest. */
  readonly ranks?: RankView;
  /** Such as `ema:0.9`; empty for none. */
  readonly smooth?: string;
}

export type RankView = "each" | "mean";

/** A line's id: the run's, with the rank where it is not the first. */
export function lineId(run: string, rank: number): string {
  return rank === 0 ? run : `${run}#${rank}`;
}

export function linesOf({ parts, label, slot, groups, alone = null, spread, isMedian = false, ranks = "each", smooth = "" }: LineRequest): Series[] {
  const means = (groups ?? []).flatMap((group) => meanLine(group, parts, { slot: slot(group.runs[0] ?? ""), spread, isMedian }));
  const single = groups === null ? [...parts] : [...parts].filter(([run]) => run === alone);
  return [...means, ...single.flatMap(([run, ofRun]) => (ranks === "mean" && ofRun.length > 1 ? [rankMean(run, ofRun, { label: label(run), slot: slot(run) })] : ofRun.map(({ head, data, smoothed }): Series => ({
    id: lineId(run, head.rank),
    label: ofRun.length > 1 || head.rank > 0 ? `${label(run)} rank ${head.rank}` : label(run),
    // Ranks of one run are told apart by the palette's own order.
    slot: besideSlot(slot(run), head.rank),
    data,
    smoothed: smoothed?.text === smooth ? smoothed.values : undefined,
  }))))];
}

function rankMean(run: string, parts: readonly SeriesPart[], { label, slot }: { readonly label: string; readonly slot: number }): Series {
  const { x, mean, low, high } = overlaid(parts.map(({ data }) => {
    const { x, y } = samplesOf(data);
    return data.kind === "raw" ? { x, y } : { x, y, low: data.min, high: data.max };
  }));
  return { id: run, label: `${label} · mean of ${parts.length} ranks`, slot, data: { kind: "raw", x, y: mean }, spread: { low, high } };
}

function meanLine(group: LineGroup, parts: LineRequest["parts"], { slot, spread, isMedian }: { readonly slot: number; readonly spread: SpreadKind; readonly isMedian: boolean }): Series[] {
  const members = group.runs.flatMap((run) => (parts.get(run) ?? []).slice(0, 1)).map(({ data }) => samplesOf(data));
  if (members.length === 0) return [];
  const all = aggregate(members, spread, isMedian);
  const { count, isInterpolated } = all;
  // A mean of few members would jump: the line ends where fewer than half of them remain.
  const end = count.findLastIndex((num) => 2 * num >= members.length) + 1;
  const [x, mean, low, high] = [all.x, all.mean, all.low, all.high].map((one) => one.subarray(0, end)) as [Float64Array, Float64Array, Float64Array, Float64Array];
  const label = `${group.title} · ${isMedian ? "median" : "mean"}, ${formatNumberOf(members.length, "run")}${isInterpolated ? ", interpolated" : ""}`;
  const noteOf = (index: number): string => countText(count[index] ?? 0, group.runs.length);
  return [{ id: groupId(group.title), label, slot, data: { kind: "raw", x, y: mean }, spread: { low, high }, noteOf }];
}

/** How many members of a group a value is of. */
export function countText(n: number, members: number): string {
  return n === members ? formatNumberOf(n, "run") : `${n} of ${members}`;
}

/** How the values of a metric are written, by its unit and, where it has none, by its name. */
export function formatOf(name: string, unit: string | null): AxisFormat {
  if (unit === "bytes" || unit === "B") return "bytes";
  if (unit === "s" || unit === "seconds") return "duration";
  if (unit === "tokens") return "tokens";
  if (unit !== null) return "number";
  if (/(^|[/_])(bytes|rss|children_rss|ram_used|ram_total|dram_(used|free|total)|vram_(total|spill))$|_bytes$/.test(name) || /^memory\//.test(name)) return "bytes";
  return /(^|[/_])duration_s$/.test(name) ? "duration" : "number";
}
