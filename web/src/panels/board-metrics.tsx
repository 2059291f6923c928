/** The board of all metrics: one chart for each, in sections by the start of their names. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { formatWhole } from "../chart/index.ts";
import { boardOf, changed, EMPTY_BOARD, joined, MOST_CHARTS, withBlocks } from "../state/boards.ts";
import type { Block, Board } from "../state/boards.ts";
import { sectionsOf } from "../state/metrics.ts";
import type { Metric } from "../state/metrics.ts";
import type { Page } from "../state/page.ts";
import { isEnded } from "../state/run-rows.ts";
import { Empty } from "../ui/empty.tsx";
import { compileFilter } from "../ui/filter.ts";
import { SearchBox } from "../ui/search-box.tsx";
import { focusBlock } from "./board-blocks.tsx";
import { useDrag } from "./parts/board-drag.ts";
import { ChoiceDialog } from "./parts/board-dialogs.tsx";
import { ChartCard } from "./parts/chart-card.tsx";
import { ChartSections, openMetrics } from "./parts/chart-sections.tsx";
import { useWideMetrics } from "./parts/wide-metrics.ts";

/** `bar` is the bar of the board around the search. */
export function AllMetrics({
  page,
  bar,
}: {
  readonly page: Page;
  readonly bar: (search: JSX.Element) => JSX.Element;
}): JSX.Element {
  const { view, metrics, boards } = page;
  const fitting = fittingMetrics(page);
  const isFiltered = view.metrics.value !== "";
  const wide = useWideMetrics(page);
  const total = Math.max(metrics.value.length, wide?.total ?? 0);
  const numFitting = isFiltered ? Math.max(fitting.length, wide?.numFound ?? 0) : total;
  const [joining, setJoining] = useState<Metric | null>(null);
  const join = (one: string, other: string): void => joinMetrics(page, one, other);
  const drag = useDrag<string>(() => ["join"], join);
  const card = (metric: Metric, height: number): JSX.Element => (
    <div class="chart-drop" {...drag.target(metric.name)}>
      <ChartCard
        page={page}
        spec={{ series: [metric.name] }}
        height={height}
        {...(boards.canSave ? { head: drag.handle(metric.name) } : {})}
        items={
          boards.canSave && fitting.length > 1
            ? [{ label: "Join with…", run: () => setJoining(metric) }]
            : []
        }
      />
    </div>
  );
  return (
    <>
      {bar(
        <div class="toolbar-search" id="metric-search">
          <SearchBox
            label="Filter charts"
            query={view.metrics.value}
            count={`${formatWhole(numFitting)} of ${formatWhole(total)}`}
            onChange={(query) => (view.metrics.value = query)}
          />
        </div>,
      )}
      {wide !== null && (
        <p class="card-note" role="status">
          {fitting.length < numFitting
            ? `${formatWhole(fitting.length)} of ${formatWhole(numFitting)} metrics are listed. ${isFiltered ? "Add words to the filter to find others." : "Filter charts by name to find others, or have more of a section listed."}`
            : `All ${formatWhole(numFitting)} are listed.`}
        </p>
      )}
      <ChartSections
        page={page}
        sections={sectionsOf(fitting)}
        isFiltered={isFiltered}
        total={fitting.length}
        wide={wide}
        card={card}
      />
      {fitting.length === 0 && <NoCharts page={page} isFiltered={isFiltered} />}
      {joining !== null && (
        <ChoiceDialog
          title={`Join ${joining.name} with`}
          onClose={() => setJoining(null)}
          choices={fitting
            .filter(({ name }) => name !== joining.name)
            .map(({ name }) => ({ label: name, run: () => join(name, joining.name) }))}
        />
      )}
    </>
  );
}

function fittingMetrics({ view, metrics }: Page): readonly Metric[] {
  const matches = compileFilter(view.metrics.value);
  return metrics.value.filter(({ name }) => matches(name));
}

/** The metrics whose charts are on the page. */
function shownNames(page: Page): readonly string[] {
  const fitting = fittingMetrics(page);
  return (
    page.view.metrics.value === ""
      ? openMetrics(page, sectionsOf(fitting), fitting.length)
      : fitting
  ).map(({ name }) => name);
}

/** A board of the charts on the page, one of which draws two metrics. */
function joinMetrics(page: Page, one: string, other: string): void {
  const board = joined(boardOf([...new Set([other, one, ...shownNames(page)])]), 1, 0);
  openNew(page, withBlocks(board, 0, 1, changed(board.blocks[0]!, { width: 8 })));
}

/** A board that begins with a block, and goes on with the charts on the page unless they are many. */
export function beginBoard(page: Page, block: Block): void {
  const names = shownNames(page);
  if (names.length > MOST_CHARTS)
    openNew(
      page,
      { ...EMPTY_BOARD, blocks: [block] },
      ` The ${formatWhole(names.length)} charts of All metrics are too many to copy.`,
    );
  else openNew(page, withBlocks(boardOf(names), 0, 0, block));
}

function openNew({ boards, toasts }: Page, board: Board, remark = ""): void {
  boards.create(board);
  toasts.show(`This is a new board.${remark} All metrics is in the menu.`);
  focusBlock(board.blocks[0]!);
}

function NoCharts({
  page,
  isFiltered,
}: {
  readonly page: Page;
  readonly isFiltered: boolean;
}): JSX.Element {
  if (isFiltered)
    return <Empty title="No metric matches this filter">Clear it to see other metrics.</Empty>;
  const { runs, view } = page;
  if (!runs.isLoaded.value) return <Empty title="Loading runs…" />;
  const drawn = runs.drawn.value;
  if (drawn.some(({ id }) => page.details.of(id).value === null))
    return (
      <div class="pane" aria-busy="true">
        <p class="card-note">Loading metrics…</p>
      </div>
    );
  if (drawn.length > 0 && drawn.every(isEnded))
    return (
      <Empty title="Nothing was logged">
        {drawn.length === 1
          ? `${drawn[0]!.name} ended without a metric.`
          : "These runs ended without a metric."}
      </Empty>
    );
  if (drawn.length > 0)
    return (
      <Empty title="Nothing has been logged yet" code={'run.log({"loss": loss}, step=step)'}>
        The chart starts with the first value.
      </Empty>
    );
  const project = view.project.value;
  if (project !== null && !runs.projects.value.includes(project))
    return (
      <Empty title={`There is no project “${project}” here`}>
        It may have been deleted, or the link is misspelt. Choose another at the top.
      </Empty>
    );
  if (runs.fitting.value.length === 0 && view.filter.value !== "")
    return (
      <Empty title="No run matches the filter">
        Change or clear the filter above the list of runs.
      </Empty>
    );
  return (
    <Empty title="No run is shown">
      Choose runs in the list: click the coloured mark to show a run in the charts.
    </Empty>
  );
}
