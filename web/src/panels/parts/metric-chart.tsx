/** The chart of one metric over the runs in the charts: asks for what its size and zoom need, and grows with the runs. */

import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import { axisName, createLineChart, smoothingText } from "../../chart/index.ts";
import type { LineChart, LineOptions, Mark, Range, Smoothing, Stretch } from "../../chart/index.ts";
import { useSeriesQueries } from "../../state/queries.ts";
import type { SeriesQueryResult } from "../../state/queries.ts";
import type { SeriesQueryOptions } from "../../state/series-cache.ts";
import type { Finding } from "../../state/findings.ts";
import type { Metric } from "../../state/metrics.ts";
import type { Page } from "../../state/page.ts";
import { isCrowd } from "../../state/crowd.ts";
import { isEnded } from "../../state/run-rows.ts";
import { isXKind } from "../../state/view.ts";
import type { View, Zoom } from "../../state/view.ts";
import { limitsOf } from "../../state/y-limits.ts";
import { Mount } from "../../ui/mount.tsx";
import type { SeriesPart } from "../../source/source.ts";
import type { AxisName, RunRow, XKind } from "../../wire.ts";
import { archiveNote } from "./bucket-note.ts";
import { drawsGroups, GroupChart } from "./group-chart.tsx";
import { CrowdChart } from "./crowd-chart.tsx";
import { formatOf, groupId, linesOf } from "./lines.ts";
import type { LineGroup, RankView } from "./lines.ts";
import { phaseStretches } from "./phases.ts";
import { countedRows } from "./unfinished.tsx";

export interface MetricChartProps {
  readonly page: Page;
  readonly metric: Pick<Metric, "name" | "axis" | "unit"> & Partial<Metric>;
  readonly height: number | string;
  /** Without it the runs in the charts. */
  readonly runs?: readonly string[];
  /** Without it rank 0. */
  readonly ranks?: RankView;
  /** With more lines than this, the list of runs is the legend. */
  readonly mostInLegend?: number;
  readonly options?: Partial<LineOptions>;
  /** Told the chart once it is there, for downloads. */
  readonly onChart?: (chart: LineChart) => void;
}

export const OUTLIERS = { auto: "auto", 1: "clip", 0: "show" } as const;
const MOST_LINES = 100;
const NARROW_PIXELS = 600;
const WIDE_PIXELS = 1400;
/** A zoom asks for a little more on both sides, so that lines run to the edges. */
const MARGIN = 0.02;
const OWN: Readonly<Record<AxisName, XKind>> = { step: "step", epoch: "epoch", time: "wall" };

export function MetricChart(props: MetricChartProps): JSX.Element {
  const isOfGroups = props.runs === undefined && props.ranks === undefined && drawsGroups(props.page);
  if (props.runs === undefined && props.ranks === undefined && isCrowd(props.page)) return <CrowdChart {...props} />;
  return isOfGroups ? <GroupChart {...props} /> : <RunChart {...props} />;
}

function RunChart(props: MetricChartProps): JSX.Element {
  const { page, metric, height, mostInLegend = 24 } = props;
  const { view, runs } = page;
  const grouped = groupedRuns(page);
  const ids = props.runs ?? (grouped.length > 0 ? grouped : runs.drawn.value).map(({ id }) => id);
  const chosen = view.focus.value;
  const pixels = height === "100%" || Number(height) > 260 ? WIDE_PIXELS : NARROW_PIXELS;
  const smoothing = smoothingOf(view);
  const smooth = smoothingText(smoothing);
  const askedSmooth = useSettled(smooth);
  const isLog = view.isLogX.value;
  const plain = { name: metric.name, x: requestedX(view, metric.name), pixels, ...(isLog ? { isLog } : {}), ...(metric.isAmbiguous ? { axis: metric.axis } : {}), ...(props.ranks ? { ranks: "all" as const } : {}) };
  const base = { ...plain, ...(askedSmooth === "" ? {} : { smooth: askedSmooth }) };
  const whole = useLastParts(JSON.stringify(plain), useSeriesQueries(page, ids.map((run): SeriesQueryOptions => ({ ...base, run, range: null }))));
  const x = whole.flatMap(({ parts }) => parts ?? [])[0]?.head.x ?? expectedX(view.x.value, metric.axis);
  const zoom = view.zoom.value?.x === x ? view.zoom.value : null;
  const close = useSeriesQueries(page, zoom === null ? [] : ids.map((run): SeriesQueryOptions => ({ ...base, run, range: widened(zoom) })));
  const parts = new Map<string, readonly SeriesPart[]>();
  for (const [index, { request, parts: ofRun }] of whole.entries()) {
    // One chart has one axis: a run that cannot be put there is left out.
    const found = (close[index]?.parts ?? ofRun ?? []).filter(({ head }) => head.x === x);
    if (found.length > 0) parts.set(request.run, found);
  }
  // More lines than can be told apart are drawn as their mean between the smallest and the largest.
  const isCrowded = props.ranks === "each" && [...parts.values()].reduce((sum, { length }) => sum + length, 0) > MOST_LINES;
  const ranks = isCrowded ? "mean" : props.ranks;
  const groups = groupsFor(page, ids);
  const alone = groups !== null && chosen !== null && !runs.shownIds.value.has(chosen) ? chosen : null;
  const spread = view.spread.value;
  const names = ids.map((id) => `${runs.slot(id)} ${runs.label(id)}`).join("\n");
  const lines = useSame([...parts.values()].flat(), `${spread} ${view.centre.value} ${ranks} ${alone} ${smooth}\n${JSON.stringify(groups)}\n${names}`, () => linesOf({
    parts, groups, alone, smooth, spread: spread === "none" || spread === "line" ? "std" : spread, isMedian: view.centre.value === "median", label: runs.label, slot: runs.slot, ...(ranks ? { ranks } : {}),
  }));
  const marks = useMarks(page, metric.name, x);
  const stretches = usePhases(page, metric.name, x);
  const isWaiting = lines.length === 0 && whole.some(({ parts: ofRun, problem }) => ofRun === null && problem === null);
  const isOver = ids.every((id) => {
    const row = runs.row(id);
    return row === undefined || isEnded(row);
  });
  const options: Partial<LineOptions> = {
    ...axisOptions(page, metric, x),
    emptyText: isWaiting ? "loading…" : zoom !== null ? "no values in this range" : isOver ? "no values" : "no values yet",
    smoothing,
    outliers: parts.size < 2 && view.outliers.value === "auto" ? "show" : OUTLIERS[view.outliers.value],
    baseline: groups === null ? view.baseline.value : null,
    chosen: lines.length > 1 ? chosen : null,
    hasLegend: lines.length > 1 && lines.length <= mostInLegend,
    marks,
    stretches,
    ...props.options,
  };
  const emphasis = { solo: page.picked.value, hovered: hoveredLine(page.hovered.value, parts, groups, alone) };
  // A server brings finer points when asked; a file has what it has.
  const coarseness = page.source.connection.value === "archive" ? archiveNote([...parts.values()].flat(), x) : null;
  const problem = lines.length === 0 ? whole.find((cell) => cell.problem !== null)?.problem : undefined;
  return (
    <div class="metric-chart" aria-busy={isWaiting} style={{ height: typeof height === "number" ? `${height}px` : height }}>
      <Mount height="100%" create={(root) => {
        const chart = createLineChart(root, options);
        props.onChart?.(chart);
        return chart;
      }} update={(chart) => show(chart, { lines, options, emphasis, zoom })} />
      {problem !== undefined && <p class="metric-problem" role="status">{problem}</p>}
      {isCrowded && <p class="metric-coarse">more than {MOST_LINES} ranks: mean and range</p>}
      {coarseness !== null && <p class="metric-coarse" title="This file has only the mean, the smallest, the largest and the last value of each bucket.">{coarseness}</p>}
    </div>
  );
}

/** What charts of runs and of groups have in common: axes as they were chosen, and what a gesture on them changes. */
export function axisOptions(page: Page, metric: MetricChartProps["metric"], x: string): Partial<LineOptions> {
  const { view } = page;
  const kind = isXKind(x) ? x : null;
  return {
    title: metric.name,
    xFormat: kind ?? "number",
    yFormat: formatOf(metric.name, metric.unit),
    xKind: view.isLogX.value ? "log" : "linear",
    yKind: isLogY(view, metric.name) ? "log" : "linear",
    xName: kind === null ? x : axisName(kind),
    yName: metric.unit === null ? metric.name : `${metric.name} (${metric.unit})`,
    yLimits: limitsOf(view.yLimits.value, metric.name),
    onShowAll: () => (view.outliers.value = "0"),
    sync: kind === null ? null : page.sync,
    onZoom: (range) => setZoom(view, { x, ...range }),
    onReset: () => setZoom(view, null),
    onSolo: (chosen) => {
      page.picked.value = chosen;
    },
  };
}

/** The same result while the same things go in, compared one by one. */
function useSame<Thing, Result>(things: readonly Thing[], text: string, make: () => Result): Result {
  const last = useRef<{ readonly things: readonly Thing[]; readonly text: string; readonly result: Result } | null>(null);
  const before = last.current;
  if (before !== null && before.text === text && before.things.length === things.length && before.things.every((thing, index) => thing === things[index])) {
    return before.result;
  }
  const result = make();
  last.current = { things, text, result };
  return result;
}

interface Shown {
  readonly lines: ReturnType<typeof linesOf>;
  readonly options: Partial<LineOptions>;
  readonly emphasis: Parameters<LineChart["setEmphasis"]>[0];
  readonly zoom: Range | null;
}

const shownIn = new WeakMap<LineChart, Shown & { readonly text: string }>();

/** Hand over only what has changed: each change draws. */
export function show(chart: LineChart, next: Shown): void {
  const before = shownIn.get(chart);
  const { marks, stretches, ...others } = next.options;
  const text = JSON.stringify(others);
  shownIn.set(chart, { ...next, text });
  const isSame = before !== undefined && before.text === text && before.options.marks === marks && before.options.stretches === stretches;
  if (!isSame) chart.setOptions(next.options);
  if (before?.lines !== next.lines) chart.setSeries(next.lines);
  if (before === undefined || before.zoom?.min !== next.zoom?.min || before.zoom?.max !== next.zoom?.max || before.text !== text) chart.setRange(next.zoom);
  if (before?.emphasis.solo !== next.emphasis.solo || before?.emphasis.hovered !== next.emphasis.hovered) chart.setEmphasis(next.emphasis);
}

/** Whether a chart has a logarithmic y axis: as all have, unless this one was turned around. */
export function isLogY(view: View, name: string): boolean {
  return view.isLogY.value !== view.logY.value.includes(name);
}

export function setZoom(view: View, zoom: Zoom | null): void {
  view.zoom.value = zoom;
}

export function smoothingOf(view: View): Smoothing {
  const amount = view.smoothness.value;
  const kind = view.smoothing.value;
  if (amount === 0) return { kind: "none" };
  // The same place of the slider removes about as much noise whichever way.
  if (kind === "gaussian") return { kind, amount: Math.round((amount / (1 - amount) / 2) * 100) / 100 };
  return kind === "mean" ? { kind, amount: 2 * Math.round(amount / (1 - amount)) + 1 } : { kind, amount };
}

const SETTLE_MS = 150;

/** A text once it has not changed for a moment: a slider that is dragged need not ask at every place. */
export function useSettled(text: string): string {
  const [settled, settle] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => settle(text), SETTLE_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return settled;
}

/** Results of queries that differ from the ones before in their smoothing only: what is on screen stays until the answer comes. */
function useLastParts(key: string, results: readonly SeriesQueryResult[]): readonly SeriesQueryResult[] {
  const last = useRef({ key, parts: new Map<string, readonly SeriesPart[]>() });
  if (last.current.key !== key) last.current = { key, parts: new Map() };
  const known = last.current.parts;
  return results.map((result) => {
    if (result.parts !== null) known.set(result.request.run, result.parts);
    return result.parts === null ? { ...result, parts: known.get(result.request.run) ?? null } : result;
  });
}

/** Steps mean the axis that a run defined for the metric, unless somebody turned that off. */
export function requestedX(view: View, name: string): string | null {
  return view.x.value === "step" && !view.onStep.value.includes(name) ? null : view.x.value;
}

function expectedX(x: XKind, axis: AxisName): XKind {
  if (x === "wall" || x === "relative") return x;
  return axis === "step" ? x : OWN[axis];
}

export function widened({ min, max }: Range): Range {
  const margin = (max - min) * MARGIN;
  return { min: min - margin, max: max + margin };
}

/** The members of groups that are drawn from series, because there is no server to average them. */
function groupedRuns({ runs, view }: Page): readonly RunRow[] {
  return view.spread.value === "none" || view.groupBy.value === null ? [] : countedRows(runs.fitting.value.filter(({ hidden }) => !hidden), view.withUnfinished.value).rows;
}

function groupsFor({ runs, view }: Page, ids: readonly string[]): readonly LineGroup[] | null {
  if (view.spread.value === "none" || view.groupBy.value === null) return null;
  return runs.groups.value
    .map(({ title, rows }) => ({ title: `${view.groupBy.value} = ${title ?? ""}`, runs: rows.map(({ id }) => id).filter((id) => ids.includes(id)) }))
    .filter((group) => group.runs.length > 0);
}

/** The line of the run under the pointer; null when it is not in this chart, so that nothing is dimmed. */
function hoveredLine(run: string | null, parts: ReadonlyMap<string, unknown>, groups: readonly LineGroup[] | null, alone: string | null): string | null {
  if (run === null || !parts.has(run)) return null;
  if (groups === null || run === alone) return run;
  const group = groups.find(({ runs }) => runs.includes(run));
  return group === undefined ? null : groupId(group.title);
}

/** Kinds of marks that charts have unless somebody turns them off. */
export const CHART_MARKS = ["finding", "restart", "epoch", "checkpoint"] as const;
export type ChartMark = (typeof CHART_MARKS)[number];

export function hiddenMarks({ view }: Page): readonly string[] {
  return view.text("no-marks").value.split(" ").filter((word) => word !== "");
}

/** Findings about a metric, and what happened in the run in focus; the same list until one of them changes. */
function useMarks(page: Page, name: string, x: string): readonly Mark[] {
  const findings = page.findings.all.value;
  const placed = page.marks.onAxis(x);
  const hidden = hiddenMarks(page).join(" ");
  const focus = page.runs.focus.value;
  const whose = focus === null || page.runs.drawn.value.length < 2 ? "" : `${page.runs.label(focus.id)}: `;
  return useMemo(() => {
    // Along epochs every place of the axis is one.
    const isShown = (kind: string): boolean => !hidden.split(" ").includes(kind) && !(kind === "epoch" && x === "epoch");
    const happened = placed.flatMap(({ kind, label, x: at }): Mark[] => (kind !== "phase" && kind !== "throttle" && isShown(kind) ? [{ x: at, kind, label: whose + label }] : []));
    return [...happened, ...(isShown("finding") ? findingMarks(findings ?? [], name, x) : [])];
  }, [findings, placed, hidden, name, x, whose]);
}

function findingMarks(findings: readonly Finding[], name: string, x: string): readonly Mark[] {
  if (x !== "step") return [];
  return findings
    .filter(({ series, steps }) => series === name && steps !== null)
    .map(({ steps, sentence, severity }): Mark => ({ x: steps![0], kind: "finding", label: sentence, severity: markSeverity(severity) }));
}

const NO_STRETCHES: readonly Stretch[] = [];

/** The phases of the run in focus, under its loss. */
function usePhases(page: Page, name: string, x: string): readonly Stretch[] {
  const focus = page.runs.focus.value;
  const loss = focus === null ? undefined : page.details.of(focus.id).value?.roles["loss"];
  const placed = page.marks.onAxis(x);
  return useMemo(() => (name === loss ? phaseStretches(placed) : NO_STRETCHES), [name, loss, placed]);
}

export function markSeverity(severity: Finding["severity"]): "info" | "warning" | "critical" {
  return severity === "error" ? "critical" : severity;
}
