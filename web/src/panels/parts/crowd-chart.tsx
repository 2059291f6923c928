/** The chart of one metric over hundreds of runs: median, quartiles and range instead of lines, with the chosen run in front. */

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";

import { createLineChart, formatWhole, smoothingText } from "../../chart/index.ts";
import type { LineOptions, Series } from "../../chart/index.ts";
import { useSeriesQueries } from "../../state/queries.ts";
import { readingText, sweepRuns, useSweep } from "../../state/sweep.ts";
import { Mount } from "../../ui/mount.tsx";
import type { GroupCurves } from "../../wire.ts";
import { axisOptions, OUTLIERS, requestedX, show, smoothingOf, useSettled, widened } from "./metric-chart.tsx";
import type { MetricChartProps } from "./metric-chart.tsx";

const POINTS = 300;
const COLUMNS = ["median", "q25", "q75", "min", "max"];
const CROWD_SLOT = 4;

export function CrowdChart(props: MetricChartProps): JSX.Element {
  const { page, metric, height } = props;
  const { view, runs } = page;
  const asked = requestedX(view, metric.name);
  const smooth = useSettled(smoothingText(smoothingOf(view)));
  const request = {
    ...sweepRuns(page), metric: metric.name, column: COLUMNS, points: POINTS,
    ...(asked === null ? {} : { x: asked }), ...(view.isLogX.value ? { log: true } : {}), ...(smooth === "" ? {} : { smooth }),
  };
  const key = JSON.stringify(request);
  const { answer: whole, problem, isWaiting } = useSweep(page, key, (source) => source.curves!(request));
  const x = whole?.x ?? view.x.value;
  const zoom = view.zoom.value?.x === x ? view.zoom.value : null;
  const range = zoom === null ? null : { lo: widened(zoom).min, hi: widened(zoom).max };
  const close = useSweep(page, range === null ? null : key + JSON.stringify(range), (source) => source.curves!({ ...request, ...range }));
  const curves = range !== null && close.answer !== null && !close.isWaiting ? close.answer : whole;
  const focus = view.focus.value;
  const [cell] = useSeriesQueries(page, focus === null ? [] : [{ run: focus, name: metric.name, x: asked, range: null, pixels: 2 * POINTS, ...(smooth === "" ? {} : { smooth }) }]);
  const own = cell?.parts?.[0]?.head.x === x ? cell.parts[0] : undefined;
  const lines = useMemo((): Series[] => [
    ...crowdLines(curves),
    ...(own === undefined || focus === null ? [] : [{ id: focus, label: runs.label(focus), slot: runs.slot(focus), data: own.data, smoothed: own.smoothed?.values }]),
  ], [curves, own, focus]);
  const options: Partial<LineOptions> = {
    ...axisOptions(page, metric, x),
    emptyText: "no values",
    outliers: OUTLIERS[view.outliers.value === "auto" ? "1" : view.outliers.value],
    chosen: focus,
    hasLegend: false,
    ...props.options,
  };
  const numMembers = curves?.curves[0]?.members ?? 0;
  return (
    <div class="metric-chart" aria-busy={isWaiting && whole === null} style={{ height: typeof height === "number" ? `${height}px` : height }}>
      {whole === null
        ? isWaiting && <p class="metric-waiting" role="status">{readingText(page)}</p>
        : (
          <Mount height="100%" create={(root) => {
            const chart = createLineChart(root, options);
            props.onChart?.(chart);
            return chart;
          }} update={(chart) => show(chart, { lines, options, emphasis: { solo: new Set(), hovered: null }, zoom })} />
        )}
      {whole !== null && <p class="metric-coarse" title="Too many lines to tell apart: the line is the median, the bands are the middle half and all of the runs.">{numMembers === 1 ? "1 run" : `${formatWhole(numMembers)} runs`}: median, quartiles, range</p>}
      {problem !== null && <p class="metric-problem" role="status">{problem}</p>}
    </div>
  );
}

/** The median of the runs, with the middle half of them and all of them as bands. */
export function crowdLines(found: GroupCurves | null): Series[] {
  return (found?.curves ?? []).slice(0, 1).map((curve): Series => {
    const column = (name: string): Float64Array => Float64Array.from(curve.columns[name] ?? [], (value) => value ?? NaN);
    return {
      id: "crowd",
      label: `median of ${formatWhole(curve.members)} runs`,
      slot: CROWD_SLOT,
      data: { kind: "raw", x: Float64Array.from(curve.at), y: column("median") },
      spread: { low: column("q25"), high: column("q75"), outer: { low: column("min"), high: column("max") } },
      noteOf: (index) => `${formatWhole(curve.n[index] ?? 0)} of ${formatWhole(curve.members)}`,
    };
  });
}
