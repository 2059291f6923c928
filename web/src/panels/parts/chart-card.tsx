/** A chart with its heading and what can be done with it. */

import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";

import type { Chart } from "../../chart/index.ts";
import { titleOf } from "../../state/chart-spec.ts";
import type { ChartSpec } from "../../state/chart-spec.ts";
import type { Metric } from "../../state/metrics.ts";
import type { Page } from "../../state/page.ts";
import { download } from "../../ui/download.ts";
import { Menu } from "../../ui/menu.tsx";
import type { MenuItem } from "../../ui/menu.tsx";
import { AddDialog } from "./board-dialogs.tsx";
import type { Attributes } from "./board-drag.ts";
import { drawsGroups } from "./curves.ts";
import { chartCsv } from "./exact-csv.ts";
import { isLogY, MetricChart } from "./metric-chart.tsx";
import type { MetricChartProps } from "./metric-chart.tsx";
import { RankMap } from "./rank-map.tsx";
import { InView } from "./in-view.tsx";

export interface ChartCardProps {
  readonly page: Page;
  readonly spec: ChartSpec;
  readonly height: number;
  /** What the place of the chart adds to its menu; a board keeps the scale and the limits of its charts itself. */
  readonly items?: readonly (MenuItem | "divider")[];
  readonly isOnBoard?: boolean;
  /** What makes the heading a handle. */
  readonly head?: Attributes | undefined;
}

const MOST_IN_LEGEND = 4;

export function ChartCard({ page, spec, height, head, ...menu }: ChartCardProps): JSX.Element {
  const chart = useRef<Pictured | null>(null);
  const metric = metricOf(page, spec);
  const name = titleOf(spec);
  return (
    <section class="card chart-card" aria-label={name} data-metric={name}>
      <header class="card-head" {...head}>
        <h3 title={name}>{name}</h3>
        {metric?.unit != null && <span class="card-note">{metric.unit}</span>}
        {metric?.x != null && spec.x == null && page.view.x.value === "step" && (
          <span class="card-note" title="The x axis that the run defined">
            along {metric.x}
          </span>
        )}
        <span class="card-space" />
        <button
          type="button"
          class="button is-quiet"
          title="Full screen"
          aria-label={`Full screen: ${name}`}
          onClick={() => (page.view.full.value = name)}
        >
          ⤢
        </button>
        <ChartMenu page={page} spec={spec} chart={() => chart.current} {...menu} />
      </header>
      <InView height={height}>
        {() => (
          <Drawn
            page={page}
            spec={spec}
            height={height}
            mostInLegend={MOST_IN_LEGEND}
            onChart={(made) => (chart.current = made)}
          />
        )}
      </InView>
    </section>
  );
}

/** The metric of a chart that draws one; undefined where it draws several, or a formula. */
function metricOf({ metrics }: Page, { series }: ChartSpec): Metric | undefined {
  return series.length === 1 ? metrics.value.find(({ name }) => name === series[0]) : undefined;
}

interface DrawnProps extends Pick<MetricChartProps, "page" | "spec" | "mostInLegend"> {
  readonly height: number | "100%";
  readonly onChart?: (chart: Pictured) => void;
}

/** A chart of lines, of the first rank unless somebody asks for others, or the ranks of the run in focus as a heat map. */
export function Drawn(props: DrawnProps): JSX.Element {
  const { page, spec, height } = props;
  const [metric, focus, ranks] = [
    metricOf(page, spec),
    page.runs.focus.value,
    page.view.text("ranks").value,
  ];
  if (metric !== undefined && ranks === "map" && metric.ranks.length > 1 && focus !== null) {
    return (
      <RankMap
        {...props}
        run={focus.id}
        metric={metric}
        height={height === "100%" ? Math.max(300, window.innerHeight - 140) : height}
      />
    );
  }
  return (
    <MetricChart
      {...props}
      {...(ranks === "all" ? { ranks: "each" } : ranks === "mean" ? { ranks } : {})}
    />
  );
}

/** A chart of which pictures can be saved. */
export type Pictured = Pick<Chart<unknown>, "png" | "svg">;

type ChartMenuProps = Pick<ChartCardProps, "page" | "spec" | "items" | "isOnBoard"> & {
  readonly chart: () => Pictured | null;
};

export function ChartMenu({
  page,
  spec,
  chart,
  items = [],
  isOnBoard = false,
}: ChartMenuProps): JSX.Element {
  const { view } = page;
  const name = titleOf(spec);
  const [isAdding, setAdding] = useState(false);
  const all: (MenuItem | "divider")[] = [
    ...items,
    ...(page.boards.canSave ? [{ label: "Add to a board…", run: () => setAdding(true) }] : []),
    ...(isOnBoard
      ? []
      : [
          {
            label: "Logarithmic y",
            isOn: isLogY(view, spec),
            run: () => (view.logY.value = toggled(view.logY.value, name)),
          },
        ]),
    "divider",
    {
      label: "Download CSV",
      hint: drawsGroups(page) ? "every step of each group" : "every point",
      run: () =>
        void page.toasts.attempt(async () =>
          download(`${name}.csv`, await chartCsv(page, spec), "text/csv;charset=utf-8"),
        ),
    },
    {
      label: "Download PNG",
      hint: "2×",
      run: () =>
        void chart()
          ?.png()
          .then((blob) => download(`${name}.png`, blob)),
    },
    {
      label: "Download SVG",
      run: () => download(`${name}.svg`, chart()?.svg() ?? "", "image/svg+xml"),
    },
  ];
  return (
    <>
      <Menu label={`Actions for ${name}`} items={all}>
        ⋯
      </Menu>
      {isAdding && <AddDialog page={page} spec={spec} onClose={() => setAdding(false)} />}
    </>
  );
}

export function toggled(names: readonly string[], name: string): readonly string[] {
  return names.includes(name) ? names.filter((one) => one !== name) : [...names, name];
}
