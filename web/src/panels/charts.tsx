/** Every metric of every selected run, along steps, epochs, tokens or time. */

import { computed } from "@preact/signals";
import type { JSX } from "preact";
import { useMemo, useRef } from "preact/hooks";

import type { LineChart } from "../chart/index.ts";
import { groupsOf, isLastGroup } from "../state/metrics.ts";
import type { Metric, MetricGroup } from "../state/metrics.ts";
import type { Page } from "../state/page.ts";
import { Dialog } from "../ui/dialog.tsx";
import { Empty } from "../ui/empty.tsx";
import { compileFilter } from "../ui/filter.ts";
import { Menu } from "../ui/menu.tsx";
import { SearchBox } from "../ui/search-box.tsx";
import { Segmented } from "../ui/segmented.tsx";
import type { Panel, PanelProps } from "./panel.ts";
import { ChartCard, ChartMenu, OutlierMenu, ranksOf, toggled } from "./parts/chart-card.tsx";
import { CHART_MARKS, hiddenMarks, MetricChart } from "./parts/metric-chart.tsx";
import type { ChartMark } from "./parts/metric-chart.tsx";
import { NoMetrics } from "./parts/no-metrics.tsx";

const CHART_HEIGHT = 230;

function Charts({ page }: PanelProps): JSX.Element {
  const { view, metrics, runs } = page;
  const fitting = useMemo(() => computed(() => {
    const filter = compileFilter(view.metrics.value, view.metricsAreRegex.value);
    return metrics.value.filter(({ name }) => filter.matches(name));
  }), [page]);
  const pinned = view.pinned.value.map((name) => metrics.value.find((metric) => metric.name === name)).filter((metric) => metric !== undefined);
  const isFiltered = view.metrics.value !== "";
  return (
    <div class="charts">
      <div class="toolbar">
        <div class="toolbar-search" id="metric-search">
          <SearchBox label="Filter charts" query={view.metrics.value} isRegex={view.metricsAreRegex.value} count={`${fitting.value.length} of ${metrics.value.length}`}
            onChange={(query, isRegex) => {
              view.metrics.value = query;
              view.metricsAreRegex.value = isRegex;
            }} />
        </div>
        <OutlierMenu page={page} />
        <label class="check"><input type="checkbox" checked={view.isLogX.value}
          onChange={(event) => (view.isLogX.value = event.currentTarget.checked)} /> Log x</label>
        {metrics.value.some(({ ranks }) => ranks.some((rank) => rank > 0)) && <RankChoice page={page} />}
        <MarkChoice page={page} />
      </div>
      {pinned.length > 0 && !isFiltered && <Group page={page} group={{ title: "pinned", metrics: pinned }} isPinned isFiltered={false} />}
      {groupsOf(fitting.value).map((group) => <Group key={group.title} page={page} group={group} isFiltered={isFiltered} />)}
      {fitting.value.length === 0 && <NoCharts page={page} isFiltered={isFiltered} numRuns={runs.drawn.value.length} />}
      <FullChart page={page} />
    </div>
  );
}

const RANK_VIEWS = [{ value: "", label: "Rank 0" }, { value: "all", label: "Each rank" }, { value: "mean", label: "Mean ± range" }] as const;

function RankChoice({ page }: { readonly page: Page }): JSX.Element {
  const ranks = page.view.text("ranks");
  const value = RANK_VIEWS.find((one) => one.value === ranks.value)?.value ?? "";
  return <Segmented label="Ranks" choices={RANK_VIEWS} value={value} onChange={(chosen) => (ranks.value = chosen)} />;
}

const MARK_NAMES: Readonly<Record<ChartMark, string>> = { finding: "Findings", restart: "Restarts", epoch: "Epochs", checkpoint: "Checkpoints" };

function MarkChoice({ page }: { readonly page: Page }): JSX.Element {
  const hidden = hiddenMarks(page);
  return (
    <Menu label="Marks in charts" items={CHART_MARKS.map((kind) => ({
      label: MARK_NAMES[kind],
      isOn: !hidden.includes(kind),
      run: () => (page.view.text("no-marks").value = toggled(hidden, kind).join(" ")),
    }))}>marks ▾</Menu>
  );
}

interface GroupProps {
  readonly page: Page;
  readonly group: MetricGroup;
  readonly isPinned?: boolean;
  readonly isFiltered: boolean;
}

function Group({ page, group, isPinned = false, isFiltered }: GroupProps): JSX.Element {
  const { view } = page;
  const isTurned = view.folded.value.includes(group.title);
  // A search opens what it finds.
  const isOpen = isFiltered || isLastGroup(group.title) === isTurned;
  return (
    <section class="group" aria-label={group.title}>
      <button type="button" class="group-head" aria-expanded={isOpen} onClick={() => (view.folded.value = toggled(view.folded.value, group.title))}>
        <span class="group-arrow" aria-hidden="true">{isOpen ? "▾" : "▸"}</span>
        <h2>{group.title}</h2>
        <span class="group-count">{group.metrics.length}</span>
      </button>
      {isOpen && (
        <div class="chart-grid">
          {group.metrics.map((metric) => (
            <ChartCard key={`${metric.axis} ${metric.name}`} page={page} metric={metric} height={CHART_HEIGHT} isPinned={isPinned} />
          ))}
        </div>
      )}
    </section>
  );
}

function NoCharts({ page, isFiltered, numRuns }: { readonly page: Page; readonly isFiltered: boolean; readonly numRuns: number }): JSX.Element {
  if (isFiltered) return <Empty title="No metric matches this filter">Clear it to see all {page.metrics.value.length} metrics.</Empty>;
  if (numRuns === 0) return <Empty title="No run is shown">Choose runs in the list: click the coloured mark to show a run in the charts.</Empty>;
  return <NoMetrics page={page} />;
}

/** One chart that fills the window; the address keeps it. */
function FullChart({ page }: { readonly page: Page }): JSX.Element {
  const { view, metrics } = page;
  const chart = useRef<LineChart | null>(null);
  const metric: Metric | undefined = metrics.value.find(({ name }) => name === view.full.value);
  return (
    <Dialog title={metric?.name ?? ""} isOpen={metric !== undefined} isFull onClose={() => (view.full.value = null)}>
      {metric !== undefined && (
        <div class="full-chart">
          <MetricChart page={page} metric={metric} height="100%" {...ranksOf(page)} onChart={(made) => (chart.current = made)} />
          <div class="full-tools"><ChartMenu page={page} metric={metric} chart={() => chart.current} /></div>
        </div>
      )}
    </Dialog>
  );
}

export const panel: Panel = {
  order: 20,
  id: "charts",
  title: "Charts",
  shortcut: "c",
  component: Charts,
  count: (page) => page.metrics.value.length || undefined,
};
