/** A metric of every rank of one run as a heat map: ranks by steps. A straggler is a line, a slow moment a column. */

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";

import { createHeatmap, formatNumber } from "../../chart/index.ts";
import type { Chart, HeatmapOptions } from "../../chart/index.ts";
import type { Metric } from "../../state/metrics.ts";
import type { Page } from "../../state/page.ts";
import { useSeriesQueries } from "../../state/queries.ts";
import { Mount } from "../../ui/mount.tsx";
import { rankMatrix } from "./rank-matrix.ts";

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
  const [cell] = useSeriesQueries(page, [{ run, name, axis, x: axis === "time" ? "relative" : axis, ranks: "all", range: null, pixels: COLUMNS, withMean: true }]);
  const parts = cell?.parts ?? null;
  const matrix = useMemo(() => (parts === null ? null : rankMatrix(parts, Math.floor((height - NOTE_PX - 50) / LEAST_ROW_PX), COLUMNS)), [parts, height]);
  if (cell?.problem != null && parts === null) return <p class="metric-problem" role="status">{cell.problem}</p>;
  if (matrix === null) return <div style={{ height: `${height}px` }} aria-busy={parts === null}>{parts !== null && <p class="card-note">no values</p>}</div>;
  const options: HeatmapOptions = {
    label: `${name} by rank of ${page.runs.label(run)}`,
    rowNames: matrix.rowNames,
    columns: { x: axis === "time" ? matrix.x : matrix.x.map(Math.round), format: axis === "time" ? "relative" : axis },
    values: matrix.values,
    ramp: "sequential",
    range: matrix.range,
    format: (value) => (value === -Infinity ? "nothing logged" : `${formatNumber(value)}${unit === null ? "" : ` ${unit}`}`),
    rowNote: (row, column) => (matrix.rowNames[row]!.startsWith("rank") ? "" : `rank ${matrix.ranks[row * matrix.x.length + column]} ${matrix.values[row * matrix.x.length + column] === -Infinity ? "has stopped" : "differs most"}`),
  };
  const create = (root: HTMLElement): Chart<HeatmapOptions> => {
    const chart = createHeatmap(root, options);
    onChart?.(chart);
    return chart;
  };
  return (
    <>
      <p class="card-note rank-note" title={matrix.perRow === 1 ? undefined : "Of each row the rank that differs most from the others is drawn"}>{matrix.perRow === 1 ? "" : `${matrix.perRow} ranks a row, `}{page.runs.label(run)}</p>
      <Mount height={height - NOTE_PX} create={create} update={(chart) => chart.update(options)} />
    </>
  );
}
