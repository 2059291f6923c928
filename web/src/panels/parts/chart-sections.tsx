/** The sections of the charts: metrics by the start of their names, one inside the other, in an order that can be changed. */

import type { JSX } from "preact";

import { isClosedAtFirst, movedSection } from "../../state/metrics.ts";
import type { Metric, MetricSection } from "../../state/metrics.ts";
import type { Page } from "../../state/page.ts";
import { Menu } from "../../ui/menu.tsx";
import { ChartCard, toggled } from "./chart-card.tsx";
import { InView } from "./in-view.tsx";
import type { WideMetrics } from "./wide-metrics.ts";

/** Heights of charts by size. */
export const CHART_HEIGHTS = { s: 150, m: 230, l: 360 } as const;
/** The heading and the frame of a card. */
const CARD_PX = 42;
/** A longer section builds cards only near the viewport. */
const MOST_CARDS = 40;

export interface SectionsProps {
  readonly page: Page;
  readonly sections: readonly MetricSection[];
  /** A search opens what it finds. */
  readonly isFiltered: boolean;
  readonly total: number;
  /** Of runs that have more metrics than are listed. */
  readonly wide?: WideMetrics | null;
}

export function ChartSections({ page, sections, isFiltered, total, wide = null }: SectionsProps): JSX.Element {
  const titles = sections.map(({ path }) => path);
  return <>{sections.map((section, index) => <Section key={section.path} page={page} section={section} titles={titles} place={{ depth: 0, index, total }} isFiltered={isFiltered} wide={wide} />)}</>;
}

interface SectionProps {
  readonly page: Page;
  readonly section: MetricSection;
  readonly titles: readonly string[];
  readonly place: { readonly depth: number; readonly index: number; readonly total: number };
  readonly isFiltered: boolean;
  readonly wide: WideMetrics | null;
}

function Section({ page, section, titles, place, isFiltered, wide }: SectionProps): JSX.Element {
  const { view } = page;
  const all = isFiltered ? 0 : (wide?.sections.get(section.path) ?? 0);
  const { path, title, metrics, sections, count } = section;
  const isTurned = view.folded.value.includes(path);
  const isOpen = isFiltered || isClosedAtFirst(path, { ...place, count }) === isTurned;
  const Heading = place.depth === 0 ? "h2" : "h3";
  return (
    <section class={`group${place.depth > 0 ? " is-inside" : ""}`} aria-label={path}>
      <div class="group-bar">
        <button type="button" class="group-head" aria-expanded={isOpen} onClick={() => (view.folded.value = toggled(view.folded.value, path))}>
          <span class="group-arrow" aria-hidden="true">{isOpen ? "▾" : "▸"}</span>
          <Heading>{title}</Heading>
          <span class="group-count">{Math.max(count, all)}</span>
        </button>
        {place.depth === 0 && titles.length > 1 && <SectionMenu page={page} path={path} titles={titles} />}
      </div>
      {isOpen && metrics.length > 0 && <ChartGrid page={page} metrics={metrics} />}
      {isOpen && sections.map((inside, index) => (
        <Section key={inside.path} page={page} section={inside} titles={[]} place={{ depth: place.depth + 1, index, total: place.total }} isFiltered={isFiltered} wide={null} />
      ))}
      {isOpen && wide !== null && all > count && (
        <p class="card-note"><button type="button" class="button" onClick={() => wide.more(path)}>List more of {path}: {count.toLocaleString("en")} of {all.toLocaleString("en")} so far</button></p>
      )}
    </section>
  );
}

function SectionMenu({ page: { view }, path, titles }: { readonly page: Page; readonly path: string; readonly titles: readonly string[] }): JSX.Element {
  const move = (by: -1 | 1 | "first") => (): void => {
    view.sections.value = movedSection(titles, path, by);
  };
  const at = titles.indexOf(path);
  return (
    <Menu label={`Order of ${path}`} items={[
      { label: "Move up", isDisabled: at === 0, run: move(-1) },
      { label: "Move down", isDisabled: at === titles.length - 1, run: move(1) },
      { label: "Move to the top", isDisabled: at === 0, run: move("first") },
      "divider",
      { label: "Usual order", isDisabled: view.sections.value.length === 0, run: () => (view.sections.value = []) },
    ]}>⋯</Menu>
  );
}

export function ChartGrid({ page, metrics }: { readonly page: Page; readonly metrics: readonly Metric[] }): JSX.Element {
  const { chartSize, chartColumns } = page.view;
  const height = CHART_HEIGHTS[chartSize.value];
  const columns = chartColumns.value;
  const card = (metric: Metric): JSX.Element => <ChartCard page={page} metric={metric} height={height} />;
  return (
    <div class={`chart-grid is-${chartSize.value}`} {...(columns === "auto" ? {} : { style: { gridTemplateColumns: `repeat(${columns}, minmax(0, 1fr))` } })}>
      {metrics.map((metric) => {
        const key = `${metric.axis} ${metric.name}`;
        if (metrics.length <= MOST_CARDS) return <div key={key} class="chart-place">{card(metric)}</div>;
        return <InView key={key} height={height + CARD_PX}>{() => card(metric)}</InView>;
      })}
    </div>
  );
}
