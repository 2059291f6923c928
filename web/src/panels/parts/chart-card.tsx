/** A metric's chart with its heading and what can be done with it. */

import type { JSX } from "preact";
import { useRef } from "preact/hooks";

import type { Chart } from "../../chart/index.ts";
import type { Metric } from "../../state/metrics.ts";
import type { Page } from "../../state/page.ts";
import { download } from "../../ui/download.ts";
import { Menu } from "../../ui/menu.tsx";
import type { MenuItem } from "../../ui/menu.tsx";
import { drawsGroups } from "./curves.ts";
import { chartCsv } from "./exact-csv.ts";
import { isLogY, MetricChart } from "./metric-chart.tsx";
import type { MetricChartProps } from "./metric-chart.tsx";
import { RankMap } from "./rank-map.tsx";
import { InView } from "./in-view.tsx";

export interface ChartCardProps {
  readonly page: Page;
  readonly metric: Metric;
  readonly height: number;
}

const MOST_IN_LEGEND = 4;

export function ChartCard({ page, metric, height }: ChartCardProps): JSX.Element {
  const chart = useRef<Pictured | null>(null);
  const { view } = page;
  const isFavourite = view.pinned.value.includes(metric.name);
  return (
    <section class="card chart-card" aria-label={metric.name} data-metric={metric.name}>
      <header class="card-head">
        <h3 title={metric.name}>{metric.name}</h3>
        {metric.unit !== null && <span class="card-note">{metric.unit}</span>}
        {isAlongMetric(page, metric) && <span class="card-note" title="The x axis that the run defined">along {metric.x}</span>}
        <span class="card-space" />
        <button type="button" class="button is-quiet chart-star" aria-pressed={isFavourite} title={isFavourite ? "A favourite: shown at the top" : "Make it a favourite, shown at the top"} aria-label={`Favourite: ${metric.name}`}
          onClick={() => toggleFavourite(page, metric.name)}>{isFavourite ? "★" : "☆"}</button>
        <button type="button" class="button is-quiet" title="Full screen" aria-label={`Full screen: ${metric.name}`}
          onClick={() => (view.full.value = metric.name)}>⤢</button>
        <ChartMenu page={page} metric={metric} chart={() => chart.current} />
      </header>
      <InView height={height}>{() => hasRankMap(page, metric) ? <RankMap page={page} run={page.runs.focus.value!.id} metric={metric} height={height} onChart={(made) => (chart.current = made)} /> : <MetricChart page={page} spec={{ series: [metric.name] }} height={height} mostInLegend={MOST_IN_LEGEND} {...ranksOf(page)} onChart={(made) => (chart.current = made)} />}</InView>
    </section>
  );
}

function isAlongMetric({ view }: Page, { x }: Metric): boolean {
  return x !== null && view.x.value === "step";
}

/** Whether a chart shows the ranks of the run in focus as a heat map. */
export function hasRankMap({ view, runs }: Page, { ranks }: Metric): boolean {
  return view.text("ranks").value === "map" && ranks.length > 1 && runs.focus.value !== null;
}

/** Whether charts show every rank, their mean or, as long as nobody asks, the first. */
export function ranksOf({ view }: Page): Pick<MetricChartProps, "ranks"> {
  const chosen = view.text("ranks").value;
  return chosen === "all" ? { ranks: "each" } : chosen === "mean" ? { ranks: "mean" } : {};
}

const OUTLIERS = [["auto", "Clip runs that flatten the others"], ["1", "Clip outliers"], ["0", "Show all values"]] as const;

export function OutlierMenu({ page: { view: { outliers } } }: { readonly page: Page }): JSX.Element {
  return <Menu label="Outliers" items={OUTLIERS.map(([value, label]) => ({ label, isOn: outliers.value === value, run: () => (outliers.value = value) }))}>outliers ▾</Menu>;
}

/** A chart of which pictures can be saved. */
export type Pictured = Pick<Chart<unknown>, "png" | "svg">;

export interface ChartMenuProps {
  readonly page: Page;
  readonly metric: Metric;
  readonly chart: () => Pictured | null;
}

export function ChartMenu({ page, metric, chart }: ChartMenuProps): JSX.Element {
  const { view } = page;
  const { name } = metric;
  const isFavourite = view.pinned.value.includes(name);
  const isLog = isLogY(view, { series: [name] });
  const items: (MenuItem | "divider")[] = [
    { label: "Favourite, shown at the top", isOn: isFavourite, run: () => toggleFavourite(page, name) },
    { label: "Logarithmic values", isOn: isLog, run: () => (view.logY.value = toggled(view.logY.value, name)) },
    "divider",
    { label: "Download CSV", hint: drawsGroups(page) ? "every step of each group" : "every point", run: () => void saveCsv(page, metric) },
    { label: "Download PNG", hint: "2×", run: () => void chart()?.png().then((blob) => download(`${name}.png`, blob)) },
    { label: "Download SVG", run: () => download(`${name}.svg`, chart()?.svg() ?? "", "image/svg+xml") },
  ];
  return (
    <Menu label={`Actions for ${name}`} items={items}>⋯</Menu>
  );
}

/** Favourites are kept in the address, and by this browser for the next visit. */
function toggleFavourite({ view }: Page, name: string): void {
  view.pinned.value = toggled(view.pinned.value, name);
}

async function saveCsv(page: Page, metric: Metric): Promise<void> {
  try {
    const text = await chartCsv(page, { series: [metric.name] });
    download(`${metric.name}.csv`, text, "text/csv;charset=utf-8");
  } catch (error) {
    page.toasts.show(error instanceof Error ? error.message : String(error), "critical");
  }
}

export function toggled(names: readonly string[], name: string): readonly string[] {
  return names.includes(name) ? names.filter((one) => one !== name) : [...names, name];
}
