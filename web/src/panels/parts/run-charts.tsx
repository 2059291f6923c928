/** Charts of one run with its newest and its best values: the loss, and the other metrics that matter. */

import type { ComponentChildren, JSX } from "preact";
import { useRef } from "preact/hooks";

import {
  formatBytes,
  formatCount,
  formatDuration,
  formatNumber,
  slotCss,
} from "../../chart/index.ts";
import type { LineChart } from "../../chart/index.ts";
import { extremesOf, lastOf } from "../../state/append-points.ts";
import type { Page } from "../../state/page.ts";
import { useSeriesQueries } from "../../state/queries.ts";
import { HEADLINES, nonfiniteValue } from "../../state/run-rows.ts";
import type { MetricRow, RunDetail } from "../../wire.ts";
import { ChartMenu } from "./chart-card.tsx";
import { formatOf, seriesLooks } from "./lines.ts";
import { MetricChart } from "./metric-chart.tsx";

/** A run with at most so many metrics has a chart of each; else those that people look at first. */
const MOST_SMALL = 12;
const FEWEST_SMALL = 8;
const ASIDE = /^(system|gpu|resources|memory|abs_max|phase)\/|(^|[/_])(epoch|step|tokens)$/;

interface Sign {
  readonly label: string;
  readonly role?: string;
  /** Names to look for where no metric has the role. */
  readonly names: readonly RegExp[];
  readonly format?: (value: number) => string;
}

const SIGNS: readonly Sign[] = [
  { label: "accuracy", names: [/^((eval|val|test)[/_])acc(uracy)?$/, /^(train[/_])?acc(uracy)?$/] },
  { label: "learning rate", role: "lr", names: [] },
  { label: "gradient norm", role: "norm", names: [] },
  {
    label: "throughput",
    role: "throughput",
    names: [/(tokens|samples|images|steps)_per_s(ec|econd)?$/],
    format: (value) => `${formatCount(value)}/s`,
  },
  {
    label: "share of the speed of light",
    names: [/(^|\/)sol$/, /(^|[/_])mfu$/],
    format: (value) => `${value.toFixed(1)}\u00a0%`,
  },
];
const GPU: Sign = {
  label: "GPU",
  names: [/^gpu\/0\/gpu_util$/, /^(system|resources)\/gpu_pct$/],
  format: (value) => `${value.toFixed(0)}\u00a0%`,
};

export interface ChartOfRun {
  readonly row: MetricRow;
  readonly label: string;
  readonly format: (value: number) => string;
}

export interface RunCharts {
  /** The training loss and the evaluation loss, else the first metric; empty for a run without metrics. */
  readonly main: readonly ChartOfRun[];
  readonly small: readonly ChartOfRun[];
}

export function chartsOf(detail: RunDetail): RunCharts {
  const all = detail.metrics.filter(({ name, axis }) => axis !== "time" && !ASIDE.test(name));
  const losses = ["loss", "eval_loss"].flatMap(
    (role) => all.find(({ name }) => name === detail.roles[role]) ?? [],
  );
  const main = losses.length > 0 ? losses : all.slice(0, 1);
  const others = all.filter((row) => !main.includes(row));
  const signs = [...SIGNS, GPU].flatMap((sign) => {
    const candidates = sign === GPU ? detail.metrics : others;
    const row =
      candidates.find(({ name }) => sign.role !== undefined && detail.roles[sign.role] === name) ??
      sign.names
        .map((pattern) => candidates.find(({ name }) => pattern.test(name)))
        .find((one) => one !== undefined);
    const isTaken = others.some(({ name }) => name === sign.label); // two charts are not both "accuracy"
    return row === undefined ? [] : [chartOf(row, isTaken ? { ...sign, label: row.name } : sign)];
  });
  const rest = others.filter((row) => !signs.some((sign) => sign.row === row));
  const room = others.length <= MOST_SMALL ? MOST_SMALL : Math.max(0, FEWEST_SMALL - signs.length);
  const isGpu = ({ label }: ChartOfRun): boolean => label === GPU.label;
  const small = [
    ...signs.filter((sign) => !isGpu(sign)),
    ...rest.slice(0, room).map((row) => chartOf(row)),
    ...signs.filter(isGpu),
  ];
  return { main: main.map((row) => chartOf(row)), small };
}

export function chartOf(
  row: MetricRow,
  { label = row.name, format = formatterOf(row) }: Partial<Sign> = {},
): ChartOfRun {
  return { row, label, format };
}

function formatterOf({ name, unit }: MetricRow): (value: number) => string {
  return (
    { bytes: formatBytes, duration: formatDuration }[formatOf(name, unit) as string] ?? formatNumber
  );
}

export interface RunChartProps {
  readonly page: Page;
  readonly run: string;
  /** Those of one chart. */
  readonly charts: readonly ChartOfRun[];
  /** Tells the charts of a section from those of the overview. */
  readonly of?: string;
  /** Below the chart. */
  readonly children?: ComponentChildren;
}

/** Fills the place that it is in. */
export function RunChart({ page, run, charts, of, children }: RunChartProps): JSX.Element {
  const chart = useRef<LineChart | null>(null);
  const series = charts.map(({ row }) => row.name);
  const isOne = charts.length === 1;
  const title = isOne ? charts[0]!.label : series.join(", ");
  const looks = seriesLooks(series, true);
  return (
    <section
      class="card chart-card run-chart"
      aria-label={of === undefined ? title : `${of}: ${title}`}
      data-metric={series[0]}
    >
      <header class="card-head">
        <h3 title={series.join(", ")} class={isOne ? "" : "visually-hidden"}>
          {title}
        </h3>
        {charts.map((one) => (
          <Values key={one.row.name} page={page} run={run} chart={one}>
            {!isOne && (
              <span class="run-values-name">
                <i
                  class="chart-swatch"
                  style={{ background: slotCss(looks.get(one.row.name)!.slot!) }}
                />{" "}
                {one.row.name}
              </span>
            )}
          </Values>
        ))}
        <span class="run-chart-tools">
          <button
            type="button"
            class="button is-quiet"
            title="Full screen"
            aria-label={`Full screen: ${title}`}
            onClick={() => (page.view.full.value = series[0]!)}
          >
            ⤢
          </button>
          <ChartMenu page={page} spec={{ series }} chart={() => chart.current} />
        </span>
      </header>
      <div class="run-chart-body">
        <MetricChart
          page={page}
          spec={{ series }}
          runs={[run]}
          height="100%"
          onChart={(made) => (chart.current = made)}
        />
      </div>
      {children}
    </section>
  );
}

/** Charts of a section of the run. */
export function ChartGrid({ charts, ...props }: RunChartProps): JSX.Element {
  return (
    <div class="overview-small">
      {charts.map((one) => (
        <RunChart key={one.row.name} {...props} charts={[one]} />
      ))}
    </div>
  );
}

/** The value that the list of runs has of a metric: beside it, a newer one would be another number. */
function listedValue({ runs, details }: Page, run: string, name: string): number | null {
  const roles = details.known(run)?.roles ?? {};
  const role = HEADLINES.find((one) => roles[one.replace("role:", "")] === name);
  const summary = role === undefined ? undefined : runs.row(run)?.summaries[role];
  if (summary === undefined || (summary.last === null && summary.last_nonfinite === null))
    return null;
  return summary.last ?? nonfiniteValue(summary.last_nonfinite);
}

/** The newest value, and the best one where the run knows which way is better. */
function Values({
  page,
  run,
  chart: { row, format },
  children,
}: {
  readonly page: Page;
  readonly run: string;
  readonly chart: ChartOfRun;
  readonly children: ComponentChildren;
}): JSX.Element | null {
  const { name, axis, unit, summary } = row;
  const [cell] = useSeriesQueries(page, [
    { run, name, axis, x: axis === "time" ? "wall" : axis, range: null, pixels: 300 },
  ]);
  const data = cell?.parts?.[0]?.data;
  const last =
    listedValue(page, run, name) ?? (data === undefined ? (summary?.last ?? null) : lastOf(data));
  if (last === null) return null;
  const extremes = data === undefined ? null : extremesOf(data);
  const best =
    summary?.best == null
      ? null
      : extremes === null
        ? summary.best
        : summary.best === summary.min
          ? extremes.min
          : extremes.max;
  return (
    <span class="run-values" title={`${name}: ${last}${unit === null ? "" : ` ${unit}`}`}>
      {children}
      <b class={Number.isFinite(last) ? "" : "is-critical"}>{format(last)}</b>
      {best !== null && <small>best {format(best)}</small>}
    </span>
  );
}
