/** A metric of every rank of one run as a heat map: ranks by steps. A straggler is a line, a slow moment a column. */

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";

import { createHeatmap, formatNumber } from "../../chart/index.ts";
import type { Chart, HeatmapOptions } from "../../chart/index.ts";
import type { Metric } from "../../state/metrics.ts";
import type { Page } from "../../state/page.ts";
import { useSeriesQueries } from "../../state/queries.ts";
import { Mount } from "../../ui/mount.tsx";
import { MOST_SPREADS, rankMatrix } from "./rank-matrix.ts";
import type { RankMatrix } from "./rank-matrix.ts";

export interface RankMapProps {
  readonly page: Page;
  readonly run: string;
  readonly metric: Pick<Metric, "name" | "axis" | "unit">;
  readonly height: number;
  readonly onChart?: (chart: Chart<HeatmapOptions>) => void;
}

const COLUMNS = 120;
const LEAST_ROW_PX = 3;
/** The line above that says what is drawn. */
const NOTE_PX = 20;

export function RankMap({ page, run, metric, height, onChart }: RankMapProps): JSX.Element {
  const { name, axis, unit } = metric;
  const [cell] = useSeriesQueries(page, [
    {
      run,
      name,
      axis,
      x: axis === "time" ? "relative" : axis,
      ranks: "all",
      range: null,
      pixels: COLUMNS,
    },
  ]);
  const parts = cell?.parts ?? null;
  const matrix = useMemo(
    () =>
      parts === null
        ? null
        : rankMatrix(parts, Math.floor((height - NOTE_PX - 50) / LEAST_ROW_PX), COLUMNS),
    [parts, height],
  );
  if (cell?.problem != null && parts === null)
    return (
      <p class="metric-problem" role="status">
        {cell.problem}
      </p>
    );
  if (matrix === null)
    return (
      <div style={{ height: `${height}px` }} aria-busy={parts === null}>
        {parts !== null && <p class="card-note">no values</p>}
      </div>
    );
  const options: HeatmapOptions = {
    label: `${name} by rank of ${page.runs.label(run)}`,
    rowNames: matrix.rowNames,
    columns: {
      x: axis === "time" ? matrix.x : matrix.x.map(Math.round),
      format: axis === "time" ? "relative" : axis,
    },
    values: matrix.deviations ?? matrix.values,
    ramp: matrix.deviations === null ? "sequential" : "diverging",
    range: matrix.deviations === null ? matrix.range : { min: -MOST_SPREADS, max: MOST_SPREADS },
    ...(matrix.deviations === null ? {} : { keyName: "Spreads" }),
    format: (_, at) =>
      matrix.values[at] === -Infinity
        ? "nothing logged"
        : `${formatNumber(matrix.values[at]!)}${unit === null ? "" : ` ${unit}`}`,
    rowNote: (row, column) =>
      noteOf(matrix, row * matrix.x.length + column, matrix.rowNames[row]!.startsWith("rank")),
  };
  const create = (root: HTMLElement): Chart<HeatmapOptions> => {
    const chart = createHeatmap(root, options);
    onChart?.(chart);
    return chart;
  };
  const hints = [
    matrix.perRow === 1 ? "" : "Of each row the rank that differs most from the others is drawn.",
    matrix.deviations === null
      ? ""
      : "Colours are distances from the median of all ranks at that step, in units of their spread: 1.48 times the median distance.",
  ];
  return (
    <>
      <p class="card-note rank-note" title={hints.join(" ").trim() || undefined}>
        {matrix.perRow === 1 ? "" : `${matrix.perRow} ranks a row, `}
        {page.runs.label(run)}
        {matrix.deviations === null ? "" : ", distance from the median of ranks"}
      </p>
      <Mount height={height - NOTE_PX} create={create} update={(chart) => chart.update(options)} />
    </>
  );
}

/** Which rank of a row is drawn, and how far from the others it is. */
function noteOf({ ranks, values, deviations }: RankMatrix, at: number, isAlone: boolean): string {
  const rank = isAlone
    ? ""
    : `rank ${ranks[at]} ${values[at] === -Infinity ? "has stopped" : "differs most"}`;
  const deviation = deviations?.[at] ?? NaN;
  if (!Number.isFinite(deviation)) return rank;
  const far =
    Math.abs(deviation) > 1e6
      ? "all others are equal"
      : `${formatNumber(Math.abs(deviation))} spreads ${deviation < 0 ? "below" : "above"} the median of ranks`;
  return rank === "" ? far : `${rank}; ${far}`;
}
