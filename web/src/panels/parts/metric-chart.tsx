/** A chart of metrics, patterns and formulas over runs, groups of runs or all runs: asks for what its size and zoom need, and grows with the runs. */

import type { ComponentChildren, JSX, RefObject } from "preact";
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";

import { axisName, createLineChart, formatNumberOf, smoothingText } from "../../chart/index.ts";
import type { LineChart, LineOptions, Range, Series } from "../../chart/index.ts";
import type { SeriesPart } from "../../source/source.ts";
import { endOf } from "../../state/append-points.ts";
import { expandPatterns, isFormula, missingText, titleOf } from "../../state/chart-spec.ts";
import type { ChartSpec } from "../../state/chart-spec.ts";
import type { Metric } from "../../state/metrics.ts";
import type { Page } from "../../state/page.ts";
import { useSeriesQueries } from "../../state/queries.ts";
import type { SeriesQueryResult } from "../../state/queries.ts";
import { isWide } from "../../state/run-details.ts";
import { isEnded } from "../../state/run-rows.ts";
import type { SeriesQueryOptions } from "../../state/series-cache.ts";
import { valuesTitle } from "../../state/group-keys.ts";
import { groupKeys, readingText, sweepRuns, useSweep } from "../../state/sweep.ts";
import { isXKind } from "../../state/view.ts";
import type { View } from "../../state/view.ts";
import { Mount } from "../../ui/mount.tsx";
import { useResting } from "../../ui/resting.ts";
import type { AxisName, GroupCurve, GroupCurves, RunRow, XKind } from "../../wire.ts";
import { archiveNote } from "./bucket-note.ts";
import { useMarks, usePhases } from "./chart-marks.ts";
import {
  columnsOf,
  CROWD_COLUMNS,
  crowdLines,
  dropoutMarks,
  drawsGroups,
  groupLines,
  leftOutText,
} from "./curves.ts";
import { formatOf, groupId, linesOf, seriesLooks } from "./lines.ts";
import type { Cell, LineGroup, RankView } from "./lines.ts";
import { countedRows } from "./unfinished.tsx";

export interface MetricChartProps {
  readonly page: Page;
  readonly spec: ChartSpec;
  readonly height: number | string;
  /** Without it the runs in the charts; with it each of these runs has lines of its own. */
  readonly runs?: readonly string[];
  /** Without it rank 0. */
  readonly ranks?: RankView;
  /** With more lines than this, the list of runs is the legend. */
  readonly mostInLegend?: number;
  /** Called with the chart once it is there, for downloads. */
  readonly onChart?: (chart: LineChart) => void;
}

const OUTLIERS = { auto: "auto", 1: "clip", 0: "show" } as const;
const MOST_LINES = 100;
/** A pattern such as `*` may match thousands of metrics. */
const MOST_SERIES = 32;
/** A slider or a window that is dragged need not ask at every place. */
const SETTLE_MS = 150;
/** A chart asks for its width in steps of this, so that few sizes of a window ask for anything. */
const PIXEL_STEP = 50;
/** The labels of the y axis take at least so much of it. */
const LABELS_PX = 40;
/** A zoom asks for a little more on both sides, so that lines run to the edges. */
const MARGIN = 0.02;
const OWN: Readonly<Record<AxisName, XKind>> = { step: "step", epoch: "epoch", time: "wall" };
const PLURALS: Readonly<Record<string, string>> = {
  step: "steps",
  epoch: "epochs",
  tokens: "tokens",
  progress: "progress",
};

export function MetricChart(props: MetricChartProps): JSX.Element {
  const { page, runs, ranks } = props;
  const isSummary =
    runs === undefined && ranks === undefined && (drawsGroups(page) || page.runs.isCrowd.value);
  return isSummary ? <SummaryChart {...props} /> : <RunChart {...props} />;
}

/** What a specification means for the runs on the page. */
export interface ChartSubject {
  /** Metrics and formulas. */
  readonly names: readonly string[];
  /** The same with those that are too many to draw. */
  readonly numMatches: number;
  /** Those that a run logged. */
  readonly metrics: readonly Metric[];
  /** The x of requests; null for the axis that a run defined for the metric, else steps. */
  readonly x: string | null;
  readonly title: string;
}

export function subjectOf({ view, metrics }: Page, spec: ChartSpec): ChartSubject {
  const matches = expandPatterns(
    spec.series,
    metrics.value.map(({ name }) => name),
  );
  const names = matches.slice(0, MOST_SERIES);
  const found = metrics.value.filter(({ name }) => names.includes(name));
  // Metrics that a run defined along different axes have steps in common.
  const chosen =
    view.x.value === "step" && new Set(found.map(({ x }) => x)).size < 2 ? null : view.x.value;
  const x = spec.x === "time" ? "wall" : (spec.x ?? chosen);
  return { names, numMatches: matches.length, metrics: found, x, title: titleOf(spec) };
}

function RunChart(props: MetricChartProps): JSX.Element {
  const { page, spec } = props;
  const { view, runs } = page;
  const subject = subjectOf(page, spec);
  const { names } = subject;
  const grouped = groupedRuns(page);
  const ids = props.runs ?? (grouped.length > 0 ? grouped : runs.drawn.value).map(({ id }) => id);
  const smooth = useResting(smoothingText(view.smoothness.value), SETTLE_MS);
  const [place, pixels] = usePixels();
  const plain = {
    x: subject.x,
    ...(view.isLogX.value ? { isLog: true } : {}),
    ...(props.ranks ? { ranks: "all" as const } : {}),
  };
  const asked = (range: Range | null): SeriesQueryOptions[] => {
    if (pixels === 0) return [];
    const base = { ...plain, pixels, ...(smooth === "" ? {} : { smooth }) };
    return ids.flatMap((run) => names.map((name) => ({ ...base, run, name, range })));
  };
  const whole = useLastParts(JSON.stringify(plain), useSeriesQueries(page, asked(null)));
  const x =
    commonX(whole, subject.x) ??
    expectedX(subject.x ?? view.x.value, subject.metrics[0]?.axis ?? "step");
  const zoom = zoomOn(view, x);
  const close = useSeriesQueries(page, zoom === null ? [] : asked(widened(zoom)));
  // One chart has one axis: a run that cannot be put there is left out.
  const cells = whole.flatMap(({ request, parts }, index): Cell[] => {
    const found = (close[index]?.parts ?? parts ?? []).filter(({ head }) => head.x === x);
    return found.length === 0 ? [] : [{ run: request.run, name: request.name, parts: found }];
  });
  const parts = cells.flatMap((cell) => cell.parts);
  // More lines than can be told apart are drawn as their mean between the smallest and the largest.
  const isCrowded = props.ranks === "each" && parts.length > MOST_LINES;
  const ranks = isCrowded ? "mean" : props.ranks;
  const groups = props.runs === undefined ? groupsFor(page, ids) : null;
  const focus = view.focus.value;
  const alone = groups !== null && focus !== null && !runs.shownIds.value.has(focus) ? focus : null;
  const spread = view.spread.value;
  const labels = ids.map((id) => `${runs.slot(id)} ${runs.label(id)}`).join("\n");
  const lines = useSame(
    parts,
    `${spread} ${view.centre.value} ${ranks} ${alone}\n${JSON.stringify([groups, names])}\n${labels}`,
    () =>
      linesOf({
        cells,
        names,
        isOneRun: ids.length === 1,
        groups,
        alone,
        spread: spread === "none" || spread === "line" ? "std" : spread,
        isMedian: view.centre.value === "median",
        label: runs.label,
        slot: runs.slot,
        ...(ranks ? { ranks } : {}),
      }),
  );
  const ends = cells
    .filter(({ run }) => run === runs.focus.value?.id)
    .map((cell) => endOf(cell.parts[0]!.data));
  const stretches = usePhases(page, names, x, Math.max(...ends));
  const marks = useMarks(page, names, x);
  const isWaiting =
    lines.length === 0 &&
    (pixels === 0 || whole.some((result) => result.parts === null && result.problem === null));
  const isOver = ids.every((id) => {
    const row = runs.row(id);
    return row === undefined || isEnded(row);
  });
  // A server brings finer points when asked; a file has what it has.
  const coarseness = page.source.connection.value === "archive" ? archiveNote(parts, x) : null;
  return (
    <Figure
      {...props}
      place={place}
      subject={subject}
      x={x}
      zoom={zoom}
      lines={lines}
      isWaiting={isWaiting}
      problem={problemOf(whole, names)}
      options={{
        emptyText: isWaiting
          ? "loading…"
          : zoom !== null
            ? "no values in this range"
            : isOver
              ? "no values"
              : "no values yet",
        outliers:
          new Set(cells.map(({ run }) => run)).size < 2 && view.outliers.value === "auto"
            ? "show"
            : OUTLIERS[view.outliers.value],
        baseline: groups === null && names.length === 1 ? view.baseline.value : null,
        chosen: ids.length > 1 ? focus : null,
        marks,
        stretches,
      }}
      hovered={hoveredLine(page.hovered.value, cells, groups, alone)}
      notes={[
        ...absentNotes(page, spec, ids, lines.length === 0 ? [] : whole),
        ...(isCrowded ? [`more than ${MOST_LINES} ranks: mean and range`] : []),
        ...(coarseness === null ? [] : [coarseness]),
      ]}
      hint={<AxisHint page={page} spec={spec} whole={whole} x={x} />}
    />
  );
}

const NARROW_POINTS = 300;
const WIDE_POINTS = 700;

/** Groups of runs as their means, or all runs as quantiles, with the chosen run in front. */
function SummaryChart(props: MetricChartProps): JSX.Element {
  const { page, spec, height } = props;
  const { view, runs } = page;
  const subject = subjectOf(page, spec);
  const { names } = subject;
  const isOfGroups = drawsGroups(page);
  const [centre, spread, focus] = [view.centre.value, view.spread.value, view.focus.value];
  const smooth = useResting(smoothingText(view.smoothness.value), SETTLE_MS);
  const request = {
    ...curvesRequest(page, subject),
    column: isOfGroups ? columnsOf(centre, spread) : CROWD_COLUMNS,
    points: isTall(height) ? WIDE_POINTS : NARROW_POINTS,
    ...(view.isLogX.value ? { log: true } : {}),
    ...(smooth === "" ? {} : { smooth }),
  };
  const key = JSON.stringify([request, names]);
  const whole = useSweep(page, key, (source) =>
    allCurves(names, (metric) => source.curves!({ ...request, metric })),
  );
  const x = whole.answer?.flatMap(({ curves }) => curves ?? [])[0]?.x ?? view.x.value;
  const zoom = zoomOn(view, x);
  const range = zoom === null ? null : { lo: widened(zoom).min, hi: widened(zoom).max };
  const close = useSweep(page, range === null ? null : key + JSON.stringify(range), (source) =>
    allCurves(names, (metric) => source.curves!({ ...request, ...range, metric })),
  );
  const answer =
    range !== null && !close.isWaiting && close.answer !== null ? close.answer : whole.answer;
  const found = useMemo(
    () =>
      (answer ?? []).flatMap(({ name, curves }) =>
        curves === null || curves.x !== x ? [] : [{ name, curves }],
      ),
    [answer, x],
  );
  const own = useSeriesQueries(
    page,
    focus === null
      ? []
      : names.map((name) => ({
          run: focus,
          name,
          x: subject.x,
          range: null,
          pixels: 2 * NARROW_POINTS,
          ...(smooth === "" ? {} : { smooth }),
        })),
  );
  const slotOf = ({ runs: [run = ""], values }: GroupCurve): number =>
    runs.groupSlot(valuesTitle(found[0]!.curves.keys, values), run);
  const slots = found
    .flatMap(({ curves }) => curves.curves)
    .map(slotOf)
    .join(" ");
  const lines = useSame(
    [found, ...own.map(({ parts }) => parts)],
    `${centre} ${spread} ${slots} ${focus}`,
    () => {
      const looks = seriesLooks(
        names,
        !isOfGroups || Math.max(...found.map(({ curves }) => curves.curves.length)) === 1,
      );
      const cells = own.map(
        ({ request: { run, name }, parts }): Cell => ({
          run,
          name,
          parts: (parts ?? []).filter(({ head }) => head.x === x),
        }),
      );
      return [
        ...found.flatMap(({ name, curves }) =>
          isOfGroups
            ? groupLines(curves, centre, spread, slotOf, looks.get(name)!)
            : crowdLines(curves, looks.get(name)!),
        ),
        ...linesOf({
          cells,
          names,
          isOneRun: false,
          groups: null,
          spread: "std",
          label: runs.label,
          slot: runs.slot,
        }),
      ];
    },
  );
  const marks = useMemo(
    () => (isOfGroups ? found.flatMap(({ curves }) => dropoutMarks(curves, centre, slotOf)) : []),
    [found, centre, slots, isOfGroups],
  );
  const first = found[0]?.curves;
  const hovered = first?.curves.find(
    (curve) => page.hovered.value !== null && curve.runs.includes(page.hovered.value),
  );
  const outliers = view.outliers.value;
  const picture = {
    x,
    zoom,
    lines,
    marks,
    outliers:
      outliers !== "auto"
        ? OUTLIERS[outliers]
        : !isOfGroups
          ? ("clip" as const)
          : lines.length < 2
            ? ("show" as const)
            : ("auto" as const),
    notes:
      first === undefined
        ? []
        : isOfGroups
          ? leftOutText(first)
          : [`${formatNumberOf(first.curves[0]?.members ?? 0, "run")}: median, quartiles, range`],
  };
  // The last picture stays until the values of the next one are here, and the groups of the list, which have the colours.
  const last = useRef<typeof picture | null>(null);
  if (!whole.isWaiting && runs.isSettled.value) last.current = picture;
  const shown = last.current ?? picture;
  return (
    <Figure
      {...props}
      subject={subject}
      x={shown.x}
      zoom={shown.zoom}
      lines={shown.lines}
      isWaiting={last.current === null}
      waiting={last.current === null ? readingText(page) : null}
      problem={
        whole.problem ?? whole.answer?.find(({ problem }) => problem !== null)?.problem ?? null
      }
      options={{
        emptyText: zoom !== null ? "no values in this range" : "no values",
        outliers: shown.outliers,
        chosen: focus,
        marks: shown.marks,
      }}
      hovered={hovered === undefined || !isOfGroups ? null : groupId(hovered.label)}
      notes={shown.notes}
    />
  );
}

/** Curves of one series, or why there are none. */
interface NamedCurves {
  readonly name: string;
  readonly curves: GroupCurves | null;
  readonly problem: string | null;
}

/** One series that cannot be computed leaves the others as they are. */
function allCurves(
  names: readonly string[],
  ask: (name: string) => Promise<GroupCurves>,
): Promise<readonly NamedCurves[]> {
  return Promise.all(
    names.map((name) =>
      ask(name).then(
        (curves): NamedCurves => ({ name, curves, problem: null }),
        (error: unknown): NamedCurves => ({
          name,
          curves: null,
          problem: error instanceof Error ? error.message : String(error),
        }),
      ),
    ),
  );
}

/** Which curves the runs of a chart have, apart from the metric. */
export function curvesRequest(
  page: Page,
  { x }: ChartSubject,
): Omit<Parameters<NonNullable<Page["source"]["sweep"]["curves"]>>[0], "metric"> {
  return {
    ...sweepRuns(page),
    ...groupKeys(page.view.groupBy.value),
    ...(x === null ? {} : { x }),
  };
}

interface FigureProps extends MetricChartProps {
  readonly place?: RefObject<HTMLDivElement | null>;
  readonly subject: ChartSubject;
  readonly x: string;
  readonly zoom: Range | null;
  readonly lines: readonly Series[];
  readonly options: Partial<LineOptions>;
  readonly hovered: string | null;
  readonly isWaiting: boolean;
  /** What stands there until the first answer, instead of a chart. */
  readonly waiting?: string | null;
  readonly problem: string | null;
  readonly notes: readonly string[];
  readonly hint?: ComponentChildren;
}

function Figure({
  place,
  page,
  spec,
  subject,
  height,
  mostInLegend = 24,
  onChart,
  x,
  zoom,
  lines,
  options,
  hovered,
  isWaiting,
  waiting = null,
  problem,
  notes,
  hint,
}: FigureProps): JSX.Element {
  const all = {
    ...axisOptions(page, spec, subject, x),
    legend:
      lines.length <= mostInLegend
        ? ("lines" as const)
        : subject.names.length > 1
          ? ("subjects" as const)
          : null,
    ...options,
    ...(problem === null ? {} : { emptyText: "" }),
  };
  const picked = page.picked.value;
  // Lines that were picked in another chart need not exist here.
  const solo = lines.some(({ id, owner, subject: name }) =>
    [id, owner, name].some((one) => one !== undefined && picked.has(one)),
  )
    ? picked
    : NONE_PICKED;
  const { names, numMatches } = subject;
  const instead =
    waiting ??
    (lines.length > 0 || isWaiting || problem !== null
      ? null
      : missingText(spec.series, page.metrics.value));
  const units = unitsOf(subject);
  const allNotes = [
    ...(names.length > 1 && units.length > 0 ? [`in ${units.join(", ")}`] : []),
    ...(names.length < numMatches
      ? [`${names.length} of ${formatNumberOf(numMatches, "matching metric")}`]
      : []),
    ...notes,
  ];
  return (
    <div
      {...(place === undefined ? {} : { ref: place })}
      class="metric-chart"
      aria-busy={isWaiting}
      style={{ height: typeof height === "number" ? `${height}px` : height }}
    >
      {instead !== null ? (
        <p class="metric-waiting" role="status">
          {instead}
        </p>
      ) : (
        <Mount
          height="100%"
          create={(root) => {
            const chart = createLineChart(root, all);
            onChart?.(chart);
            return chart;
          }}
          update={(chart) =>
            show(chart, { lines, options: all, emphasis: { solo, hovered }, zoom })
          }
        />
      )}
      <div class="metric-notes">
        {problem !== null && (
          <p class="metric-problem" role="status">
            {problem}
          </p>
        )}
        <p class="metric-coarse">
          {allNotes.join(" · ")} {hint}
        </p>
      </div>
    </div>
  );
}

const NONE_PICKED: ReadonlySet<string> = new Set();

/** The units of the series, each once. */
function unitsOf({ metrics }: ChartSubject): readonly string[] {
  return [...new Set(metrics.flatMap(({ unit }) => unit ?? []))];
}

/** Axes as they were chosen, and what a gesture on them changes. */
function axisOptions(
  page: Page,
  spec: ChartSpec,
  subject: ChartSubject,
  x: string,
): Partial<LineOptions> {
  const { names, metrics, title } = subject;
  const { view } = page;
  const kind = isXKind(x) ? x : null;
  const units = unitsOf(subject);
  const formats = new Set(
    names.map((name) =>
      formatOf(name, metrics.find((metric) => metric.name === name)?.unit ?? null),
    ),
  );
  const goals = new Set(
    names.map((name) => metrics.find((metric) => metric.name === name)?.goal ?? null),
  );
  return {
    title,
    xFormat: kind ?? "number",
    yFormat: formats.size === 1 ? [...formats][0]! : "number",
    xKind: view.isLogX.value ? "log" : "linear",
    yKind: isLogY(view, spec) ? "log" : "linear",
    xName: kind === null ? x : axisName(kind),
    yName: units.length === 0 ? title : `${title} (${units.join(", ")})`,
    yLimits: { min: spec.limits?.[0] ?? null, max: spec.limits?.[1] ?? null },
    goal: goals.size === 1 ? [...goals][0]! : null,
    onShowAll: () => (view.outliers.value = "0"),
    sync: kind === null ? null : page.sync,
    onZoom: (range) => (view.zoom.value = { x, ...range }),
    onReset: () => (view.zoom.value = null),
    onSolo: (chosen) => (page.picked.value = chosen),
  };
}

/** Why runs are not in the chart, and how to see them. */
function AxisHint({
  page: { view },
  spec,
  whole,
  x,
}: {
  readonly page: Page;
  readonly spec: ChartSpec;
  readonly whole: readonly SeriesQueryResult[];
  readonly x: string;
}): JSX.Element | null {
  const drawn = new Set(
    whole
      .filter(({ parts }) => parts?.some(({ head }) => head.x === x))
      .map(({ request }) => request.run),
  );
  const left = new Map(
    whole.flatMap(({ request: { run }, parts }) =>
      drawn.has(run) || !parts?.[0] ? [] : [[run, OWN[parts[0].head.axis]] as const],
    ),
  );
  const [axis] = left.values();
  if (axis === undefined || drawn.size === 0) return null;
  const are = left.size === 1 ? "1 run has" : `${left.size} runs have`;
  return (
    <span>
      {are} no {PLURALS[x] ?? x}: {left.size === 1 ? "it was" : "they were"} logged by{" "}
      {axis === "wall" ? "time" : axis}.
      {spec.x == null && (
        <button type="button" class="link" onClick={() => (view.x.value = "relative")}>
          Show all by elapsed time
        </button>
      )}
    </span>
  );
}

/** The same result while the same things go in, compared one by one. */
function useSame<Thing, Result>(
  things: readonly Thing[],
  text: string,
  make: () => Result,
): Result {
  const last = useRef<{
    readonly things: readonly Thing[];
    readonly text: string;
    readonly result: Result;
  } | null>(null);
  const before = last.current;
  if (
    before !== null &&
    before.text === text &&
    before.things.length === things.length &&
    before.things.every((thing, index) => thing === things[index])
  ) {
    return before.result;
  }
  const result = make();
  last.current = { things, text, result };
  return result;
}

interface Shown {
  readonly lines: readonly Series[];
  readonly options: Partial<LineOptions>;
  readonly emphasis: Parameters<LineChart["setEmphasis"]>[0];
  readonly zoom: Range | null;
}

const shownIn = new WeakMap<LineChart, Shown & { readonly text: string }>();

/** Hand over only what has changed: each change draws. */
function show(chart: LineChart, next: Shown): void {
  const before = shownIn.get(chart);
  const { marks, stretches, ...others } = next.options;
  const text = JSON.stringify(others);
  shownIn.set(chart, { ...next, text });
  const isSame =
    before !== undefined &&
    before.text === text &&
    before.options.marks === marks &&
    before.options.stretches === stretches;
  if (!isSame) chart.setOptions(next.options);
  if (before?.lines !== next.lines) chart.setSeries(next.lines);
  if (
    before === undefined ||
    before.zoom?.min !== next.zoom?.min ||
    before.zoom?.max !== next.zoom?.max ||
    before.text !== text
  )
    chart.setRange(next.zoom);
  if (
    before?.emphasis.solo !== next.emphasis.solo ||
    before?.emphasis.hovered !== next.emphasis.hovered
  )
    chart.setEmphasis(next.emphasis);
}

/** Whether a chart has a logarithmic y axis: its own choice, else as all have, unless this metric was turned around. */
export function isLogY(view: View, spec: ChartSpec): boolean {
  return spec.log_y ?? view.isLogY.value !== view.logY.value.includes(titleOf(spec));
}

/** How many columns of pixels a chart has room for; 0 until it has a place. */
function usePixels(): [RefObject<HTMLDivElement | null>, number] {
  const place = useRef<HTMLDivElement>(null);
  const [pixels, setPixels] = useState(0);
  useLayoutEffect(() => {
    const measure = (): void => {
      const width = Math.max(0, place.current!.clientWidth - LABELS_PX);
      setPixels(PIXEL_STEP * Math.ceil(width / PIXEL_STEP));
    };
    let timer: ReturnType<typeof setTimeout> | undefined;
    const observer = new ResizeObserver(() => {
      clearTimeout(timer);
      timer = setTimeout(measure, SETTLE_MS);
    });
    measure();
    observer.observe(place.current!);
    return () => {
      clearTimeout(timer);
      observer.disconnect();
    };
  }, []);
  return [place, pixels];
}

/** Results of queries that differ from the ones before in their smoothing or width only: what is on screen stays until the answer comes. */
function useLastParts(
  key: string,
  results: readonly SeriesQueryResult[],
): readonly SeriesQueryResult[] {
  const last = useRef({ key, parts: new Map<string, readonly SeriesPart[]>() });
  if (last.current.key !== key) last.current = { key, parts: new Map() };
  const before = last.current.parts;
  return results.map((result) => {
    const id = `${result.request.run}\n${result.request.name}`;
    if (result.parts !== null) before.set(id, result.parts);
    return result.parts === null ? { ...result, parts: before.get(id) ?? null } : result;
  });
}

/** The axis that was asked for where any run has it, else the one that most runs have; null until the first answer. */
function commonX(results: readonly SeriesQueryResult[], asked: string | null): string | null {
  const counts = new Map<string, number>();
  for (const { parts } of results)
    if (parts?.[0] !== undefined)
      counts.set(parts[0].head.x, (counts.get(parts[0].head.x) ?? 0) + 1);
  if (asked !== null && counts.has(asked)) return asked;
  return (
    [...counts].reduce<[string, number] | null>(
      (best, one) => (best === null || one[1] > best[1] ? one : best),
      null,
    )?.[0] ?? null
  );
}

function expectedX(x: string, axis: AxisName): string {
  return axis === "step" || x === "wall" || x === "relative" ? x : OWN[axis];
}

/** Why a series is in none of the runs, in one sentence; a run that merely lacks it is not worth a word. */
function problemOf(results: readonly SeriesQueryResult[], names: readonly string[]): string | null {
  const missing = names.find((name) => {
    const ofName = results.filter(({ request }) => request.name === name);
    return (
      ofName.some(({ problem }) => problem !== null) &&
      ofName.every(({ parts }) => parts === null || parts.length === 0)
    );
  });
  return missing === undefined
    ? null
    : (results.find(({ request, problem }) => request.name === missing && problem !== null)
        ?.problem ?? null);
}

/** Which series of a chart that has others are in none of its runs. Patterns are matched with the metrics that are listed. */
function absentNotes(
  { metrics, details }: Page,
  { series }: ChartSpec,
  runs: readonly string[],
  whole: readonly SeriesQueryResult[],
): readonly string[] {
  const listed = metrics.value.map(({ name }) => name);
  const areWide = runs.some((id) => isWide(details.of(id).value ?? { sections: {} }));
  return (series.length < 2 || whole.length === 0) && !areWide
    ? []
    : series.flatMap((text) => {
        const matches = expandPatterns([text], listed);
        if (matches.length === 0) return [`No ${areWide ? "listed " : ""}metric matches ${text}.`];
        if (matches[0] !== text)
          return areWide ? [`Only listed metrics were searched for ${text}.`] : [];
        return !isFormula(text) &&
          whole.length > 0 &&
          whole.every(({ request, parts }) => request.name !== text || parts?.length === 0)
          ? [`No run has ${text}.`]
          : [];
      });
}

function zoomOn({ zoom: { value } }: View, x: string): Range | null {
  return value?.x === x ? value : null;
}

function widened({ min, max }: Range): Range {
  const margin = (max - min) * MARGIN;
  return { min: min - margin, max: max + margin };
}

function isTall(height: number | string): boolean {
  return height === "100%" || Number(height) > 260;
}

/** The members of groups that are drawn from series, because there is no server to average them. */
function groupedRuns({ runs, view }: Page): readonly RunRow[] {
  return view.spread.value === "none" || view.groupBy.value === null
    ? []
    : countedRows(
        runs.fitting.value.filter(({ hidden }) => !hidden),
        view.withUnfinished.value,
      );
}

function groupsFor({ runs, view }: Page, ids: readonly string[]): readonly LineGroup[] | null {
  if (view.spread.value === "none" || view.groupBy.value === null) return null;
  return runs.groups.value
    .map(({ title, rows }) => ({
      title: `${view.groupBy.value} = ${title ?? ""}`,
      runs: rows.map(({ id }) => id).filter((id) => ids.includes(id)),
    }))
    .filter((group) => group.runs.length > 0);
}

/** The line of the run under the pointer; null when it is not in this chart, so that nothing is dimmed. */
function hoveredLine(
  run: string | null,
  cells: readonly Cell[],
  groups: readonly LineGroup[] | null,
  alone: string | null,
): string | null {
  if (run === null || !cells.some((cell) => cell.run === run)) return null;
  if (groups === null || run === alone) return run;
  const group = groups.find(({ runs }) => runs.includes(run));
  return group === undefined ? null : groupId(group.title);
}
