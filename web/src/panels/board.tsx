/** Every metric of every selected run, along steps, epochs, tokens or time. */

import type { JSX } from "preact";

import { formatWhole, slotSample } from "../chart/index.ts";
import { configText } from "../state/config.ts";
import { sectionsOf } from "../state/metrics.ts";
import type { Page } from "../state/page.ts";
import { CHART_COLUMNS, CHART_SIZES } from "../state/view.ts";
import type { ChartColumns } from "../state/view.ts";
import { Empty } from "../ui/empty.tsx";
import { Menu } from "../ui/menu.tsx";
import { SearchBox } from "../ui/search-box.tsx";
import { Segmented } from "../ui/segmented.tsx";
import type { PanelProps } from "./panel.ts";
import { OutlierMenu, toggled } from "./parts/chart-card.tsx";
import { drawsGroups } from "./parts/group-chart.tsx";
import { ChartGrid, ChartSections } from "./parts/chart-sections.tsx";
import { CHART_MARKS, hiddenMarks } from "./parts/metric-chart.tsx";
import type { ChartMark } from "./parts/metric-chart.tsx";
import { NoMetrics } from "./parts/no-metrics.tsx";
import { useMetricFilter } from "./parts/metric-filter.ts";
import { useWideMetrics } from "./parts/wide-metrics.ts";

export function Board({ page }: PanelProps): JSX.Element {
  const { view, metrics, runs } = page;
  const { matches, problem } = useMetricFilter(page);
  const fitting = metrics.value.filter(({ name }) => matches(name));
  const pinned = view.pinned.value.map((name) => metrics.value.find((metric) => metric.name === name)).filter((metric) => metric !== undefined);
  const isFiltered = view.metrics.value !== "";
  const wide = useWideMetrics(page);
  const total = Math.max(metrics.value.length, wide?.total ?? 0);
  const numFitting = isFiltered ? Math.max(fitting.length, wide?.numFound ?? 0) : total;
  return (
    <div class="charts">
      <div class="toolbar">
        <div class="toolbar-search" id="metric-search">
          <SearchBox label="Filter charts" query={view.metrics.value} isRegex={page.source.supportsQueries ? view.metricsAreRegex.value : undefined} problem={problem} count={`${numFitting.toLocaleString("en")} of ${total.toLocaleString("en")}`}
            onChange={(query, isRegex) => {
              view.metrics.value = query;
              view.metricsAreRegex.value = isRegex;
            }} />
        </div>
        <OutlierMenu page={page} />
        <label class="check"><input type="checkbox" checked={view.isLogX.value}
          onChange={(event) => (view.isLogX.value = event.currentTarget.checked)} /> Log x</label>
        <label class="check"><input type="checkbox" checked={view.isLogY.value}
          onChange={(event) => (view.isLogY.value = event.currentTarget.checked)} /> Log y</label>
        {metrics.value.some(({ ranks }) => ranks.some((rank) => rank > 0)) && <RankChoice page={page} />}
        <MarkChoice page={page} />
        <ColorChoice page={page} />
        <LayoutChoice page={page} />
      </div>
      <ColorKeys page={page} />
      {wide !== null && <p class="card-note" role="status">{fitting.length < numFitting
        ? `${fitting.length.toLocaleString("en")} of ${numFitting.toLocaleString("en")} metrics are listed. ${isFiltered ? "Add words to the filter to find others." : "Filter charts by name to find others, or have more of a section listed."}`
        : `All ${numFitting.toLocaleString("en")} are listed.`}</p>}
      {pinned.length > 0 && !isFiltered && (
        <section class="group" aria-label="favourites">
          <h2 class="group-title">favourites <span class="group-count">{pinned.length}</span></h2>
          <ChartGrid page={page} metrics={pinned} />
        </section>
      )}
      <ChartSections page={page} sections={sectionsOf(fitting, view.sections.value)} isFiltered={isFiltered} total={fitting.length} wide={wide} />
      {fitting.length === 0 && <NoCharts page={page} isFiltered={isFiltered} numRuns={runs.drawn.value.length} />}
    </div>
  );
}

const RANK_VIEWS = [{ value: "", label: "Rank 0" }, { value: "all", label: "Each rank" }, { value: "mean", label: "Mean ± range" }, { value: "map", label: "Heat map" }] as const;

function RankChoice({ page }: { readonly page: Page }): JSX.Element {
  const ranks = page.view.text("ranks");
  const value = RANK_VIEWS.find((one) => one.value === ranks.value)?.value ?? "";
  return <Segmented label="Ranks" choices={RANK_VIEWS} value={value} onChange={(chosen) => (ranks.value = chosen)} />;
}

const SIZE_NAMES = { s: "Small charts", m: "Medium charts", l: "Large charts" } as const;

function LayoutChoice({ page: { view } }: { readonly page: Page }): JSX.Element {
  const columnsName = (columns: ChartColumns): string => (columns === "auto" ? "As many columns as fit" : columns === "1" ? "1 column" : `${columns} columns`);
  return (
    <Menu label="Layout: size and columns of charts" items={[
      ...CHART_SIZES.map((size) => ({ label: SIZE_NAMES[size], isOn: view.chartSize.value === size, run: () => (view.chartSize.value = size) })),
      "divider",
      ...CHART_COLUMNS.map((columns) => ({ label: columnsName(columns), isOn: view.chartColumns.value === columns, run: () => (view.chartColumns.value = columns) })),
    ]}>layout ▾</Menu>
  );
}

const MOST_KEYS = 200;

/** Colour runs by a key of the config whose values differ. */
function ColorChoice({ page: { view, runs } }: { readonly page: Page }): JSX.Element | null {
  const rows = runs.drawn.value;
  const keys = runs.configKeys.value.filter((key) => new Set(rows.map(({ config }) => configText(config, key))).size > 1).slice(0, MOST_KEYS);
  if (keys.length === 0 && view.colorBy.value === null && view.colors.value.length === 0) return null;
  return (
    <Menu label={view.colorBy.value === null ? "Colour of runs" : `Colour of runs: colour by ${view.colorBy.value}`} items={[
      { label: "A colour for each run", isOn: view.colorBy.value === null, run: () => (view.colorBy.value = null) },
      ...(view.colors.value.length === 0 ? [] : [{ label: "Forget chosen colours", run: () => (view.colors.value = []) }]),
      ...(keys.length === 0 ? [] : ["divider" as const]),
      ...keys.map((key) => ({ label: `By ${key}`, isOn: view.colorBy.value === key, run: () => (view.colorBy.value = key) })),
    ]}>{view.colorBy.value === null ? "colour ▾" : `colour by ${view.colorBy.value} ▾`}</Menu>
  );
}

/** What the colours mean where they stand for values of the config. */
function ColorKeys({ page }: { readonly page: Page }): JSX.Element | null {
  const { view, runs } = page;
  const coloring = runs.coloring.value;
  if (coloring === null) return drawsGroups(page) ? <GroupColors page={page} /> : null;
  return (
    <div class="color-keys" role="group" aria-label={`Colours by ${view.colorBy.value}`}>
      <span>{view.colorBy.value}{coloring.isRange ? ", from low to high" : ""}</span>
      {coloring.keys.map(({ text, slot, count }) => <span key={text}><i style={{ background: slotSample(slot) }} />{text === "" ? "none" : text}<small>{coloring.isRange ? "" : ` ${count}`}</small></span>)}
    </div>
  );
}

/** Small charts have no legend of their own, and a phone no list beside them. */
function GroupColors({ page: { runs } }: { readonly page: Page }): JSX.Element | null {
  const groups = runs.groups.value.filter(({ title, rows }) => title !== null && rows.length > 0);
  if (groups.length < 2 || groups.length > MOST_GROUPS) return null;
  return (
    <div class="color-keys" role="group" aria-label="Colours of groups">
      {groups.map(({ title, rows }) => <span key={title}><i style={{ background: slotSample(runs.slot(rows[0]!.id)) }} />{title}<small> {formatWhole(rows.length)}</small></span>)}
    </div>
  );
}

const MOST_GROUPS = 24;

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

function NoCharts({ page, isFiltered, numRuns }: { readonly page: Page; readonly isFiltered: boolean; readonly numRuns: number }): JSX.Element {
  if (isFiltered) return <Empty title="No metric matches this filter">Clear it to see other metrics.</Empty>;
  const { runs, view } = page;
  if (!runs.isLoaded.value) return <Empty title="Loading runs…" />;
  if (numRuns === 0) {
    const project = view.project.value;
    if (project !== null && !runs.projects.value.includes(project)) return <Empty title={`There is no project “${project}” here`}>It may have been deleted, or the link is misspelt. Choose another at the top.</Empty>;
    if (runs.fitting.value.length === 0 && view.filter.value !== "") return <Empty title="No run matches the filter">Change or clear the filter above the list of runs.</Empty>;
    return <Empty title="No run is shown">Choose runs in the list: click the coloured mark to show a run in the charts.</Empty>;
  }
  return <NoMetrics page={page} />;
}
