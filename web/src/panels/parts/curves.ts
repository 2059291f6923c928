/** Groups of runs, and hundreds of runs at once, as the server summarizes them: their lines, marks and tables. */

import { formatNumberOf, nearestIndex } from "../../chart/index.ts";
import type { Mark, Series } from "../../chart/index.ts";
import type { Page } from "../../state/page.ts";
import type { Centre, SpreadChoice } from "../../state/view.ts";
import { csvField } from "../../ui/download.ts";
import type { GroupCurve, GroupCurves } from "../../wire.ts";
import { bandText, countText, groupId } from "./lines.ts";
import type { SeriesLook } from "./lines.ts";

const EDGES: Readonly<Record<SpreadChoice, readonly string[]>> = {
  none: [],
  line: [],
  std: ["std"],
  stderr: ["se"],
  ci: ["low", "high"],
  minmax: ["min", "max"],
  iqr: ["q25", "q75"],
};
export const CROWD_COLUMNS = ["median", "q25", "q75", "min", "max"];
const CROWD_SLOT = 4;

/** Whether charts show groups as the server averages them. */
export function drawsGroups({ view, source }: Page): boolean {
  return (
    source.sweep.curves !== null && view.groupBy.value !== null && view.spread.value !== "none"
  );
}

/** The columns that a line and its band need. */
export function columnsOf(centre: Centre, spread: SpreadChoice): readonly string[] {
  return [centre, ...EDGES[spread]];
}

/** One line a group, with a band that stays within what the metric can be. */
export function groupLines(
  found: GroupCurves,
  centre: Centre,
  spread: SpreadChoice,
  slot: (curve: GroupCurve) => number,
  look: SeriesLook,
): Series[] {
  const [lowest, highest] = [found.lowest ?? -Infinity, found.highest ?? Infinity];
  const clipped = (value: number): number => Math.min(highest, Math.max(lowest, value));
  return found.curves.map((curve): Series => {
    const y = column(curve, centre);
    const edges = EDGES[spread].map((name) => column(curve, name));
    const owner = groupId(curve.label);
    const label = [
      curve.label,
      ...look.label,
      `${bandText(centre, spread)}, ${formatNumberOf(curve.members, "run")}`,
    ].join(" · ");
    const line = {
      id: `${owner}${look.id}`,
      owner,
      subject: found.metric,
      label,
      slot: look.slot ?? slot(curve),
      dash: look.dash,
      data: { kind: "raw" as const, x: Float64Array.from(curve.at), y },
      noteOf: (index: number): string => countText(curve.n[index] ?? 0, curve.members),
    };
    if (edges.length === 0) return line;
    const low = edges.length === 2 ? edges[0]! : y.map((value, index) => value - edges[0]![index]!);
    const high =
      edges.length === 2 ? edges[1]! : y.map((value, index) => value + edges[0]![index]!);
    return { ...line, spread: { low: low.map(clipped), high: high.map(clipped) } };
  });
}

/** The median of all runs, with the middle half of them and all of them as bands. */
export function crowdLines(found: GroupCurves, look: SeriesLook): Series[] {
  return found.curves.slice(0, 1).map(
    (curve): Series => ({
      id: `crowd${look.id}`,
      subject: found.metric,
      label: [`median of ${formatNumberOf(curve.members, "run")}`, ...look.label].join(" · "),
      slot: look.slot ?? CROWD_SLOT,
      data: { kind: "raw", x: Float64Array.from(curve.at), y: column(curve, "median") },
      spread: {
        low: column(curve, "q25"),
        high: column(curve, "q75"),
        outer: { low: column(curve, "min"), high: column(curve, "max") },
      },
      noteOf: (index) => countText(curve.n[index] ?? 0, curve.members),
    }),
  );
}

/** A cross on a group's line where a member ends or turns nan. */
export function dropoutMarks(
  found: GroupCurves,
  centre: Centre,
  slot: (curve: GroupCurve) => number,
): Mark[] {
  const marks = found.curves.flatMap((curve) => {
    const y = column(curve, centre);
    return curve.dropouts.flatMap(({ at, name, why, state }, index): Mark[] => {
      const near = nearestIndex(curve.at, at);
      if (near < 0 || at < curve.at[0]! || at > curve.at.at(-1)!) return [];
      const left = curve.members - curve.missing - index - 1;
      const label = `${name} ${why === "nonfinite" ? "is nan from here on" : `ends here (${state})`}: ${left} of ${curve.members} remain`;
      return [{ x: at, kind: "dropout", label, on: { y: y[near]!, slot: slot(curve) } }];
    });
  });
  return marks.sort((one, other) => one.x - other.x);
}

/** What is not drawn. */
export function leftOutText({ curves, groups, unfinished }: GroupCurves): readonly string[] {
  return [
    ...(curves.length < groups ? [`${curves.length} of ${groups} groups`] : []),
    ...(unfinished.are_included
      ? []
      : [`${formatNumberOf(unfinished.runs.length, "unfinished run")} left out`]),
  ];
}

/** The numbers of groups at every step as CSV, with the columns of `epochal compare --csv --steps`. */
export function curvesTable(answers: readonly GroupCurves[]): string {
  const counts = ["n", "nonfinite", "ended"] as const;
  const names = Object.keys(answers.flatMap(({ curves }) => curves)[0]?.columns ?? {}).filter(
    (name) => !(counts as readonly string[]).includes(name),
  );
  const lines = [
    [
      "metric",
      ...(answers[0]?.keys ?? []),
      answers[0]?.x ?? "x",
      "members",
      "missing",
      ...counts,
      ...names,
    ],
  ];
  for (const { metric, curves } of answers) {
    for (const curve of curves) {
      for (const [index, at] of curve.at.entries()) {
        lines.push([
          metric,
          ...curve.values.map((value) => String(value ?? "")),
          String(at),
          String(curve.members),
          String(curve.missing),
          ...counts.map((name) => String(curve[name][index])),
          ...names.map((name) => String(curve.columns[name]![index] ?? "")),
        ]);
      }
    }
  }
  return `${lines.map((line) => line.map(csvField).join(",")).join("\r\n")}\r\n`;
}

function column(curve: GroupCurve, name: string): Float64Array {
  return Float64Array.from(curve.columns[name] ?? [], (value) => value ?? NaN);
}
