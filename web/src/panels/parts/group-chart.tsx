/** The chart of one metric over groups of runs: numbers of all members, how many there are at each step, and where some end. */

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";

import { createLineChart, formatNumberOf, smoothingText } from "../../chart/index.ts";
import type { LineOptions, Mark, Series } from "../../chart/index.ts";
import { csvField } from "../../chart/line/exports.ts";
import { nearestIndex } from "../../chart/series.ts";
import type { CurvesRequest } from "../../source/source.ts";
import type { Page } from "../../state/page.ts";
import { useSeriesQueries } from "../../state/queries.ts";
import { groupKeys, readingText, sweepRuns, useSweep } from "../../state/sweep.ts";
import type { Centre, SpreadChoice } from "../../state/view.ts";
import { Mount } from "../../ui/mount.tsx";
import type { GroupCurve, GroupCurves } from "../../wire.ts";
import { countText, groupId, linesOf } from "./lines.ts";
import { axisOptions, OUTLIERS, requestedX, show, smoothingOf, useSettled, widened } from "./metric-chart.tsx";
import type { MetricChartProps } from "./metric-chart.tsx";

const NARROW_POINTS = 300;
const WIDE_POINTS = 700;

/** Whether charts show groups as the server averages them. */
export function drawsGroups({ view, source }: Page): boolean {
  return source.sweep.curves !== null && view.groupBy.value !== null && view.spread.value !== "none";
}

export function GroupChart(props: MetricChartProps): JSX.Element {
  const { page, metric, height, mostInLegend = 24 } = props;
  const { view, runs } = page;
  const [centre, spread] = [view.centre.value, view.spread.value];
  const smooth = useSettled(smoothingText(smoothingOf(view)));
  const request = {
    ...groupRequest(page, metric.name), column: columnsOf(centre, spread), points: height === "100%" || Number(height) > 260 ? WIDE_POINTS : NARROW_POINTS,
    ...(view.isLogX.value ? { log: true } : {}), ...(smooth === "" ? {} : { smooth }),
  };
  const key = JSON.stringify(request);
  const { answer: whole, problem, isWaiting } = useSweep(page, key, (source) => source.curves!(request));
  const x = whole?.x ?? view.x.value;
  const zoom = view.zoom.value?.x === x ? view.zoom.value : null;
  const range = zoom === null ? null : { lo: widened(zoom).min, hi: widened(zoom).max };
  const close = useSweep(page, range === null ? null : key + JSON.stringify(range), (source) => source.curves!({ ...request, ...range }));
  const curves = range !== null && !close.isWaiting && close.answer !== null ? close.answer : whole;
  const slots = (curves?.curves ?? []).map((curve) => runs.slot(curve.runs[0] ?? "")).join(" ");
  const alone = useChosenRun(page, metric.name, x);
  const lines = useMemo(() => [...groupLines(curves, centre, spread, runs.slot), ...alone], [curves, centre, spread, slots, alone]);
  const marks = useMemo(() => dropoutMarks(curves, centre, runs.slot), [curves, centre, slots]);
  const options: Partial<LineOptions> = {
    ...axisOptions(page, metric, x),
    emptyText: zoom !== null ? "no values in this range" : "no values",
    outliers: lines.length < 2 && view.outliers.value === "auto" ? "show" : OUTLIERS[view.outliers.value],
    chosen: view.focus.value,
    hasLegend: lines.length > 1 && lines.length <= mostInLegend,
    marks,
    ...props.options,
  };
  const hovered = curves?.curves.find((curve) => page.hovered.value !== null && curve.runs.includes(page.hovered.value));
  const emphasis = { solo: page.picked.value, hovered: hovered === undefined ? null : groupId(hovered.label) };
  return (
    <div class="metric-chart" aria-busy={isWaiting && whole === null} style={{ height: typeof height === "number" ? `${height}px` : height }}>
      {whole === null
        ? isWaiting && <p class="metric-waiting" role="status">{readingText(page)}</p>
        : (
          <Mount height="100%" create={(root) => {
            const chart = createLineChart(root, options);
            props.onChart?.(chart);
            return chart;
          }} update={(chart) => show(chart, { lines, options, emphasis, zoom })} />
        )}
      {curves !== null && <p class="metric-coarse">{noteOf(curves)}</p>}
      {problem !== null && <p class="metric-problem" role="status">{problem}</p>}
    </div>
  );
}

/** What is not drawn. */
function noteOf({ curves, groups, unfinished }: GroupCurves): string {
  return [
    ...(curves.length < groups ? [`${curves.length} of ${groups} groups`] : []),
    ...(unfinished.are_included ? [] : [`${formatNumberOf(unfinished.runs.length, "unfinished run")} left out`]),
  ].join(", ");
}

/** The line of the run that somebody chose in the list, beside the groups. */
function useChosenRun(page: Page, name: string, x: string): readonly Series[] {
  const { view, runs } = page;
  const run = view.focus.value;
  const [found] = useSeriesQueries(page, run === null ? [] : [{ name, x: requestedX(view, name), pixels: 2 * NARROW_POINTS, run, range: null }]);
  const parts = found?.parts ?? null;
  return useMemo(() => {
    const fitting = (parts ?? []).filter(({ head }) => head.x === x);
    return run === null || fitting.length === 0 ? NO_LINES : linesOf({ parts: new Map([[run, fitting]]), groups: null, spread: "std", label: runs.label, slot: runs.slot });
  }, [run, parts, x]);
}

const NO_LINES: readonly Series[] = [];

function groupRequest(page: Page, metric: string): CurvesRequest {
  const x = requestedX(page.view, metric);
  return { ...sweepRuns(page), ...groupKeys(page.view.groupBy.value), metric, ...(x === null ? {} : { x }) };
}

/** The numbers of groups at every step as CSV, with the columns of `epochal compare --csv --steps`. */
export async function groupCsv(page: Page, metric: string): Promise<string> {
  return curvesTable(await page.source.sweep.curves!({ ...groupRequest(page, metric), points: 0 }));
}

export function curvesTable({ metric, x, keys, curves }: GroupCurves): string {
  const counts = ["n", "nonfinite", "ended"] as const;
  const names = Object.keys(curves[0]?.columns ?? {}).filter((name) => !(counts as readonly string[]).includes(name));
  const lines = [["metric", ...keys, x, "members", "missing", ...counts, ...names]];
  for (const curve of curves) {
    for (const [index, at] of curve.at.entries()) {
      lines.push([
        metric, ...curve.values.map((value) => String(value ?? "")), String(at), String(curve.members), String(curve.missing),
        ...counts.map((name) => String(curve[name][index])), ...names.map((name) => String(curve.columns[name]![index] ?? "")),
      ]);
    }
  }
  return `${lines.map((line) => line.map(csvField).join(",")).join("\r\n")}\r\n`;
}

const EDGES: Readonly<Record<SpreadChoice, readonly string[]>> = {
  none: [], line: [], std: ["std"], stderr: ["se"], ci: ["low", "high"], minmax: ["min", "max"], iqr: ["q25", "q75"],
};

/** The columns that a line and its band need. */
export function columnsOf(centre: Centre, spread: SpreadChoice): readonly string[] {
  return [centre, ...EDGES[spread]];
}

/** One line a group, with a band that stays within what the metric can be. */
export function groupLines(found: GroupCurves | null, centre: Centre, spread: SpreadChoice, slot: (run: string) => number): Series[] {
  if (found === null) return [];
  const [lowest, highest] = [found.lowest ?? -Infinity, found.highest ?? Infinity];
  return found.curves.map((curve): Series => {
    const y = column(curve, centre);
    const edges = EDGES[spread].map((name) => column(curve, name));
    const line = { id: groupId(curve.label), label: `${curve.label} · ${centre}, ${formatNumberOf(curve.members, "run")}`, slot: slot(curve.runs[0] ?? ""), data: { kind: "raw" as const, x: Float64Array.from(curve.at), y } };
    const noteOf = (index: number): string => countText(curve.n[index] ?? 0, curve.members);
    if (edges.length === 0) return { ...line, noteOf };
    const clipped = (value: number): number => Math.min(highest, Math.max(lowest, value));
    const low = edges.length === 2 ? edges[0]! : y.map((value, index) => value - edges[0]![index]!);
    const high = edges.length === 2 ? edges[1]! : y.map((value, index) => value + edges[0]![index]!);
    return { ...line, noteOf, spread: { low: low.map(clipped), high: high.map(clipped) } };
  });
}

/** A cross on a group's line where a member ends or turns nan. */
export function dropoutMarks(found: GroupCurves | null, centre: Centre, slot: (run: string) => number): Mark[] {
  const marks = (found?.curves ?? []).flatMap((curve) => {
    const y = column(curve, centre);
    return curve.dropouts.flatMap(({ at, name, why, state }, index): Mark[] => {
      const near = nearestIndex(curve.at, at);
      if (near < 0 || at < curve.at[0]! || at > curve.at.at(-1)!) return [];
      const left = curve.members - curve.missing - index - 1;
      const label = `${name} ${why === "nonfinite" ? "is nan from here on" : `ends here (${state})`}: ${left} of ${curve.members} remain`;
      return [{ x: at, kind: "dropout", label, on: { y: y[near]!, slot: slot(curve.runs[0] ?? "") } }];
    });
  });
  return marks.sort((one, other) => one.x - other.x);
}

function column(curve: GroupCurve, name: string): Float64Array {
  return Float64Array.from(curve.columns[name] ?? [], (value) => value ?? NaN);
}
