/** From series of runs to the lines of a chart: labels, colours, ranks, and groups drawn as their mean. */

import {
  aggregate,
  assignSlots,
  besideSlot,
  formatNumberOf,
  formatWhole,
  overlaid,
  SERIES_DASHES,
} from "../../chart/index.ts";
import type { AxisFormat, Series, SpreadKind } from "../../chart/index.ts";
import { samplesOf } from "../../chart/series.ts";
import type { SeriesPart } from "../../source/source.ts";
import type { SpreadChoice } from "../../state/view.ts";

/** Runs whose lines are drawn as one. */
export interface LineGroup {
  readonly title: string;
  readonly runs: readonly string[];
}

/** One metric or formula of one run, with its ranks. */
export interface Cell {
  readonly run: string;
  readonly name: string;
  readonly parts: readonly SeriesPart[];
}

/** The id of a group's line, and the owner of its lines where it has several. */
export function groupId(title: string): string {
  return `group:${title}`;
}

/** What tells the series of a chart apart: nothing where there is one, colours where there is one run, dashes between several runs. */
export interface SeriesLook {
  readonly id: string;
  readonly label: readonly string[];
  readonly slot: number | null;
  readonly dash: readonly number[] | undefined;
}

export const ONE_SERIES: SeriesLook = { id: "", label: [], slot: null, dash: undefined };

export function seriesLooks(
  names: readonly string[],
  isOneOwner: boolean,
): ReadonlyMap<string, SeriesLook> {
  if (names.length < 2) return new Map(names.map((name) => [name, ONE_SERIES]));
  const slots = assignSlots(names);
  return new Map(
    names.map((name, index) => [
      name,
      {
        id: `\n${name}`,
        label: [name],
        slot: isOneOwner ? slots.get(name)! : null,
        dash: isOneOwner ? undefined : SERIES_DASHES[index % SERIES_DASHES.length]!,
      },
    ]),
  );
}

export interface LineRequest {
  /** In the order of the list, and of the series of the chart. */
  readonly cells: readonly Cell[];
  readonly names: readonly string[];
  readonly isOneRun: boolean;
  readonly label: (run: string) => string;
  readonly slot: (run: string) => number;
  /** Null to draw every run by itself. */
  readonly groups: readonly LineGroup[] | null;
  /** A run that has lines of its own beside the groups. */
  readonly alone?: string | null;
  readonly spread: SpreadKind;
  /** The line of a group is its median. */
  readonly isMedian?: boolean;
  /** How the ranks of a run are drawn: each, or their mean between the smallest and the largest. */
  readonly ranks?: RankView;
}

export type RankView = "each" | "mean";

/** A line's id: the run's, with the rank where it is not the first. */
export function lineId(run: string, rank: number): string {
  return rank === 0 ? run : `${run}#${rank}`;
}

export function linesOf({
  cells,
  names,
  isOneRun,
  label,
  slot,
  groups,
  alone = null,
  spread,
  isMedian = false,
  ranks = "each",
}: LineRequest): Series[] {
  const looks = seriesLooks(names, groups === null ? isOneRun : groups.length === 1);
  const means = (groups ?? []).flatMap((group) =>
    names.flatMap((name) => {
      const members = cells
        .filter((cell) => cell.name === name && group.runs.includes(cell.run))
        .flatMap(({ parts }) => parts.slice(0, 1));
      return meanLine(group, members, {
        slot: slot(group.runs[0] ?? ""),
        spread,
        isMedian,
        look: looks.get(name)!,
      });
    }),
  );
  const single = groups === null ? cells : cells.filter(({ run }) => run === alone);
  return [
    ...means,
    ...single.flatMap(({ run, name, parts }) => {
      const look = looks.get(name)!;
      const own = look.slot ?? slot(run);
      const title = (
        isOneRun && look.slot !== null ? look.label : [label(run), ...look.label]
      ).join(" · ");
      if (ranks === "mean" && parts.length > 1)
        return [{ ...rankMean(`${run}${look.id}`, run, parts, title, own), subject: name }];
      return parts.map(
        ({ head, data, smoothed }): Series => ({
          id: `${lineId(run, head.rank)}${look.id}`,
          owner: run,
          subject: name,
          label: parts.length > 1 || head.rank > 0 ? `${title} rank ${head.rank}` : title,
          // Ranks of one run are told apart by the palette's own order.
          slot: besideSlot(own, head.rank),
          dash: look.dash,
          data,
          smoothed: smoothed?.values,
        }),
      );
    }),
  ];
}

function rankMean(
  id: string,
  owner: string,
  parts: readonly SeriesPart[],
  title: string,
  slot: number,
): Series {
  const { x, mean, low, high } = overlaid(
    parts.map(({ data }) => {
      const { x, y } = samplesOf(data);
      return data.kind === "raw" ? { x, y } : { x, y, low: data.min, high: data.max };
    }),
  );
  return {
    id,
    owner,
    label: `${title} · mean of ${parts.length} ranks`,
    slot,
    data: { kind: "raw", x, y: mean },
    spread: { low, high },
  };
}

interface MeanLook {
  readonly slot: number;
  readonly spread: SpreadKind;
  readonly isMedian: boolean;
  readonly look: SeriesLook;
}

function meanLine(
  group: LineGroup,
  parts: readonly SeriesPart[],
  { slot, spread, isMedian, look }: MeanLook,
): Series[] {
  if (parts.length === 0) return [];
  const members = parts.map(({ data, smoothed }) => {
    const { x, y, lastX } = samplesOf(data);
    return smoothed === undefined ? { x, y } : { x: lastX, y: smoothed.values };
  });
  const all = aggregate(members, spread, isMedian);
  const { count, isInterpolated } = all;
  // A mean of few members would jump: the line ends where fewer than half of them remain.
  const end = count.findLastIndex((num) => 2 * num >= members.length) + 1;
  const [x, mean, low, high] = [all.x, all.mean, all.low, all.high].map((one) =>
    one.subarray(0, end),
  ) as [Float64Array, Float64Array, Float64Array, Float64Array];
  const of = `${bandText(isMedian ? "median" : "mean", spread)}, ${formatNumberOf(members.length, "run")}${isInterpolated ? ", interpolated" : ""}`;
  const owner = groupId(group.title);
  return [
    {
      id: `${owner}${look.id}`,
      owner,
      subject: look.label[0] ?? owner,
      label: [group.title, ...look.label, of].join(" · "),
      slot: look.slot ?? slot,
      dash: look.dash,
      data: { kind: "raw", x, y: mean },
      spread: { low, high },
      noteOf: (index) => countText(count[index] ?? 0, group.runs.length),
    },
  ];
}

/** What the line of a group and the band around it are. */
export function bandText(centre: string, spread: SpreadChoice): string {
  return (
    centre +
    {
      none: "",
      line: "",
      std: " ± std",
      stderr: " ± standard error",
      ci: " with 95 % interval",
      iqr: " with quartiles",
      minmax: " with min and max",
    }[spread]
  );
}

/** How many members of a group a value is of, where it is not all of them. */
export function countText(n: number, members: number): string {
  return n === members ? "" : `${formatWhole(n)} of ${formatWhole(members)}`;
}

/** How the values of a metric are written, by its unit and, where it has none, by its name. */
export function formatOf(name: string, unit: string | null): AxisFormat {
  if (unit === "bytes" || unit === "B") return "bytes";
  if (unit === "s" || unit === "seconds") return "duration";
  if (unit === "tokens") return "tokens";
  if (unit !== null) return "number";
  if (
    /(^|[/_])(bytes|rss|children_rss|ram_used|ram_total|dram_(used|free|total)|vram_(total|spill))$|_bytes$/.test(
      name,
    ) ||
    /^memory\//.test(name)
  )
    return "bytes";
  return /(^|[/_])duration_s$/.test(name) ? "duration" : "number";
}
