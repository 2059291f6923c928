/** The sections of the charts: metrics by the start of their names, one inside the other. */

import type { JSX } from "preact";

import { formatWhole } from "../../chart/index.ts";
import { isClosedAtFirst } from "../../state/metrics.ts";
import type { Metric, MetricSection } from "../../state/metrics.ts";
import type { Page } from "../../state/page.ts";
import { toggled } from "./chart-card.tsx";
import { InView } from "./in-view.tsx";
import type { WideMetrics } from "./wide-metrics.ts";

/** Heights of charts by size; those of one or two that have a section to themselves. */
const CHART_HEIGHTS = { s: 150, m: 230, l: 360 } as const;
const FEW_HEIGHTS = { s: 190, m: 300, l: 420 } as const;
const FEW = 2;
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
  readonly wide: WideMetrics | null;
  readonly card: (metric: Metric, height: number) => JSX.Element;
}

export function ChartSections({ sections, total, ...props }: SectionsProps): JSX.Element {
  return (
    <>
      {sections.map((section, index) => (
        <Section
          key={section.path}
          {...props}
          section={section}
          place={{ depth: 0, index, total }}
        />
      ))}
    </>
  );
}

function isOpened(
  { view }: Page,
  { path, count }: MetricSection,
  place: SectionProps["place"],
): boolean {
  return isClosedAtFirst(path, { ...place, count }) === view.folded.value.includes(path);
}

/** The metrics of sections that are open, in the order of their charts. */
export function openMetrics(
  page: Page,
  sections: readonly MetricSection[],
  total: number,
  depth = 0,
): readonly Metric[] {
  return sections.flatMap((section, index) =>
    isOpened(page, section, { depth, index, total })
      ? [...section.metrics, ...openMetrics(page, section.sections, total, depth + 1)]
      : [],
  );
}

interface SectionProps extends Omit<SectionsProps, "sections" | "total"> {
  readonly section: MetricSection;
  readonly place: { readonly depth: number; readonly index: number; readonly total: number };
}

function Section({ section, place, ...props }: SectionProps): JSX.Element {
  const {
    page,
    page: { view },
    isFiltered,
    wide,
  } = props;
  const { path, title, metrics, sections, count } = section;
  const all = isFiltered ? 0 : (wide?.sections.get(path) ?? 0);
  const isOpen = isFiltered || isOpened(page, section, place);
  const Heading = place.depth === 0 ? "h2" : "h3";
  return (
    <section class={`group${place.depth > 0 ? " is-inside" : ""}`} aria-label={path}>
      <button
        type="button"
        class="group-head"
        aria-expanded={isOpen}
        onClick={() => (view.folded.value = toggled(view.folded.value, path))}
      >
        <span class="group-arrow" aria-hidden="true">
          {isOpen ? "▾" : "▸"}
        </span>
        <Heading>{title}</Heading>
        <span class="group-count">{Math.max(count, all)}</span>
      </button>
      {isOpen && metrics.length > 0 && <ChartGrid {...props} metrics={metrics} />}
      {isOpen &&
        sections.map((inside, index) => (
          <Section
            key={inside.path}
            {...props}
            section={inside}
            place={{ depth: place.depth + 1, index, total: place.total }}
            wide={null}
          />
        ))}
      {isOpen && wide !== null && all > count && (
        <p class="card-note">
          <button type="button" class="button" onClick={() => wide.more(path)}>
            List more of {path}: {formatWhole(count)} of {formatWhole(all)} so far
          </button>
        </p>
      )}
    </section>
  );
}

function ChartGrid({
  page,
  metrics,
  card,
}: Pick<SectionsProps, "page" | "card"> & { readonly metrics: readonly Metric[] }): JSX.Element {
  const size = page.view.chartSize.value;
  const height = (metrics.length > FEW ? CHART_HEIGHTS : FEW_HEIGHTS)[size];
  return (
    <div class={`chart-grid is-${size}`}>
      {metrics.map((metric) => {
        const key = `${metric.axis} ${metric.name}`;
        if (metrics.length <= MOST_CARDS)
          return (
            <div key={key} class="chart-place">
              {card(metric, height)}
            </div>
          );
        return (
          <InView key={key} height={height + CARD_PX}>
            {() => card(metric, height)}
          </InView>
        );
      })}
    </div>
  );
}
