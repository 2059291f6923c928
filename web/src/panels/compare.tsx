/** Runs beside each other: which is best, a table, groups, which config keys matter, parallel coordinates, a scatter plot, and why one is worse. */

import type { JSX } from "preact";
import { useEffect } from "preact/hooks";

import { formatWhole } from "../chart/index.ts";
import type { Page } from "../state/page.ts";
import { MOST_ROWS } from "../state/run-pages.ts";
import { groupKeys, readingText, sweepRuns, useSweep } from "../state/sweep.ts";
import { Tabs } from "../ui/tabs.tsx";
import { STATISTICS } from "./compare-columns.ts";
import type { Statistic } from "./compare-columns.ts";
import { GroupsView } from "./compare-groups.tsx";
import { ImportanceView } from "./compare-importance.tsx";
import { ParallelView, ScatterView } from "./compare-pictures.tsx";
import { TableView } from "./compare-table.tsx";
import { WhyView } from "./compare-why.tsx";
import type { GroupTable } from "../wire.ts";
import type { PanelProps } from "./panel.ts";
import { NoRun } from "./parts/no-run.tsx";
import { UnfinishedSwitch } from "./parts/unfinished.tsx";
import "./compare.css";

const TABS = [
  { id: "table", label: "Table" },
  { id: "groups", label: "Groups" },
  { id: "importance", label: "Importance" },
  { id: "parallel", label: "Parallel" },
  { id: "scatter", label: "Scatter" },
  { id: "why", label: "Why" },
] as const;
const STATISTIC_NAMES: Readonly<Record<Statistic, string>> = {
  last: "Last value",
  best: "Best value",
  min: "Smallest value",
  max: "Largest value",
  mean: "Mean value",
};
const CONTENT_ID = "compare-content";

export function Compare({ page }: PanelProps): JSX.Element {
  const { runs, view, metrics } = page;
  const tab = view.text("compare", "table");
  const chosen = view.text("compare-metric");
  const metric = chosen.value === "" ? firstMetric(page) : chosen.value;
  const value = view.text("compare-value", "last");
  const statistic = STATISTICS.find((one) => one === value.value) ?? "last";
  const request = {
    ...sweepRuns(page),
    ...groupKeys(view.groupBy.value),
    metric: [metric],
    value: statistic,
  };
  const groups = useSweep(
    page,
    metric === "" || runs.numFitting.value === 0 ? null : JSON.stringify(request),
    (source) => source.groups(request),
  );
  useEffect(() => runs.wantMany(), [runs.bigList.value, runs.numFitting.value]);
  if (runs.numFitting.value === 0) return <NoRun page={page} />;
  const table = groups.answer?.tables[0];
  const goal = metrics.value.find(({ name }) => name === metric)?.goal ?? table?.goal ?? null;
  const subject = { page, metric, statistic, goal };
  const names = [
    ...new Set([metric, ...metrics.value.map(({ name }) => name), ...page.setNames.value]),
  ]
    .filter((name) => name !== "")
    .sort();
  return (
    <div class="pane">
      <h2 class="visually-hidden">Compare</h2>
      <p class="compare-verdict" role="status" aria-busy={groups.isWaiting}>
        {metric === ""
          ? "These runs have no metrics."
          : (groups.problem ??
            table?.verdict.replace(/ ([=<±]) /g, "\u00a0$1\u00a0") ??
            (groups.answer === null ? readingText(page) : `None of these runs has ${metric}.`))}
        {table !== undefined && tab.value !== "why" && table.unfinished.sentence !== "" && (
          <span class="card-note is-text"> {table.unfinished.sentence}</span>
        )}
      </p>
      <div class="pane-bar compare-bar">
        <Tabs
          label="Shown as"
          tabs={TABS}
          active={tab.value}
          panelId={CONTENT_ID}
          onChange={(id) => (tab.value = id)}
        />
        <Choice
          label="Metric"
          value={metric}
          choices={names.map((name) => [name, name])}
          onChange={(name) => (chosen.value = name)}
        />
        {tab.value !== "why" && (
          <Choice
            label="Value"
            value={statistic}
            choices={STATISTICS.map((one) => [one, STATISTIC_NAMES[one]])}
            onChange={(one) => (value.value = one)}
          />
        )}
        {tab.value !== "why" && <UnfinishedSwitch page={page} unfinished={table?.unfinished} />}
      </div>
      {runs.fitting.value.length < runs.numFitting.value && <TooMany page={page} />}
      <div
        id={CONTENT_ID}
        class="compare-content"
        role="tabpanel"
        aria-label={TABS.find(({ id }) => id === tab.value)?.label ?? ""}
      >
        {tab.value === "groups" ? (
          <GroupsView page={page} sweep={groups} />
        ) : tab.value === "importance" ? (
          <ImportanceView {...subject} />
        ) : tab.value === "parallel" ? (
          <ParallelView {...subject} />
        ) : tab.value === "scatter" ? (
          <ScatterView {...subject} />
        ) : tab.value === "why" ? (
          <WhyView page={page} metric={metric} best={bestRun(table)} />
        ) : (
          <TableView {...subject} />
        )}
      </div>
    </div>
  );
}

/** What the views of Compare are about. */
export interface Subject {
  readonly page: Page;
  readonly metric: string;
  readonly statistic: Statistic;
  readonly goal: "min" | "max" | null;
}

/** The evaluation loss, else the loss, else a metric of which is known what is better. */
function firstMetric({ metrics }: Page): string {
  const known = metrics.value;
  const byRole = ["eval_loss", "loss"]
    .map((role) => known.find((metric) => metric.role === role)?.name)
    .find((name) => name !== undefined);
  return byRole ?? known.find(({ goal }) => goal !== null)?.name ?? known[0]?.name ?? "";
}

/** The id of the run with the best value; null if it is not known. */
function bestRun(table: GroupTable | undefined): string | null {
  const values = (table?.rows ?? [])
    .flatMap(({ members }) => members)
    .filter(({ standing }) => standing === "counted");
  if (table == null || table.goal === null || values.length === 0) return null;
  const sign = table.goal === "min" ? 1 : -1;
  return values.reduce((best, one) => (sign * (one.value! - best.value!) < 0 ? one : best)).run;
}

export function Choice({
  label,
  value,
  choices,
  onChange,
}: {
  readonly label: string;
  readonly value: string;
  readonly choices: readonly (readonly [value: string, label: string])[];
  readonly onChange: (value: string) => void;
}): JSX.Element {
  return (
    <label class="choice">
      <span class="slider-label">{label}</span>
      <select
        class="select"
        aria-label={label}
        value={value}
        onChange={(event) => onChange(event.currentTarget.value)}
      >
        {choices.map(([one, text]) => (
          <option key={one} value={one}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}

/** There are more runs than this page has rows of: which of them are compared. */
function TooMany({ page }: { readonly page: Page }): JSX.Element {
  const { fitting, numFitting } = page.runs;
  const [num, all] = [fitting.value.length, numFitting.value];
  const text =
    num < Math.min(MOST_ROWS, all)
      ? `Loading ${formatWhole(num)} of ${formatWhole(all)} runs …`
      : `These are the first ${formatWhole(num)} of ${formatWhole(all)} runs, in the order of the list. Sorting sorts all of them; a filter narrows them.`;
  return (
    <p class="card-note is-text" role="status">
      {text}
    </p>
  );
}
