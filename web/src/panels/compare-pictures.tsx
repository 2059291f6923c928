/** Many runs as pictures: a line each over several axes, a point each over two. */

import type { JSX } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

import {
  brushesText,
  createParallel,
  createScatter,
  formatWhole,
  parseBrushes,
  rankCorrelation,
} from "../chart/index.ts";
import type { Brush, Chart, ParallelOptions, ScatterOptions } from "../chart/index.ts";
import type { Page } from "../state/page.ts";
import { MOST_SHOWN } from "../state/runs.ts";
import { readingText, sweepRuns, useSweep } from "../state/sweep.ts";
import { isQuery } from "../ui/filter.ts";
import { download } from "../ui/download.ts";
import { Empty } from "../ui/empty.tsx";
import { Menu } from "../ui/menu.tsx";
import { Mount } from "../ui/mount.tsx";
import type { Importance, Parameter, RunRow } from "../wire.ts";
import type { Subject } from "./compare.tsx";
import { brushQuery, keptRows } from "./compare-brushes.ts";
import type { Brushes } from "./compare-brushes.ts";
import { columnOf, compareValues, differingKeys } from "./compare-columns.ts";
import type { Column, Statistic } from "./compare-columns.ts";
import { ColumnDialog, parseIds, useColumnGroups } from "./compare-pickers.tsx";
import type { ColumnGroup } from "./compare-pickers.tsx";
import { useSummaries } from "./compare-summaries.ts";
import { Section } from "./parts/section.tsx";
import { countedRows } from "./parts/unfinished.tsx";

const MOST_AXES = 12;
/** Of the config, at first. */
const FIRST_AXES = 6;
const AXIS_PX = 92;
const HEIGHT = 440;

/** The keys that the metric depends on; null until they are known. */
function useRanking({ page, metric, statistic }: Subject): {
  readonly ranking: Importance | null;
  readonly isWaiting: boolean;
} {
  const request = { ...sweepRuns(page), metric, value: statistic };
  const { answer, problem } = useSweep(
    page,
    metric === "" ? null : JSON.stringify(request),
    (source) => source.importance(request),
  );
  return {
    ranking: answer?.metric === metric ? answer : null,
    isWaiting: metric !== "" && answer === null && problem === null,
  };
}

/** The keys to draw at first: those that matter most, the most important last; without a ranking those that differ. */
export function firstKeys(
  ranking: Importance | null,
  keys: readonly string[],
  rows: readonly RunRow[],
): readonly string[] {
  const isSeed = (key: string): boolean => /seed$/i.test(key);
  const ranked = (ranking?.parameters ?? []).map(({ key }) => key);
  return (ranked.length > 0 ? ranked : differingKeys(keys, rows))
    .filter((key) => !isSeed(key))
    .slice(0, FIRST_AXES)
    .reverse();
}

/** The columns of a picture with some ids, and the runs that it draws: those that count. */
function usePicture(
  { page, metric, statistic }: Subject,
  ids: readonly string[],
): {
  readonly find: (id: string) => Column | null;
  readonly rows: readonly RunRow[];
  readonly isReading: boolean;
} {
  const metricId = `metric:${metric}`;
  const { summaries, isReading } = useSummaries(page, [metricId, ...ids]);
  const find = (id: string): Column | null => columnOf(id, { summaries, statistic });
  const outcome = metric === "" ? null : find(metricId);
  const rows = countedRows(
    page.runs.fitting.value,
    page.view.withUnfinished.value,
    (row) => outcome === null || outcome.valueIn(row) !== null,
  );
  return { find, rows, isReading: isReading && summaries.size === 0 };
}

function Downloads({
  title,
  chart,
}: {
  readonly title: string;
  readonly chart: () => Pick<Chart<unknown>, "png" | "svg"> | null;
}): JSX.Element {
  return (
    <Menu
      label={`Downloads of ${title}`}
      items={[
        {
          label: "Download PNG",
          hint: "2×",
          run: () =>
            void chart()
              ?.png()
              .then((blob) => download(`${title}.png`, blob)),
        },
        {
          label: "Download SVG",
          run: () => download(`${title}.svg`, chart()?.svg() ?? "", "image/svg+xml"),
        },
      ]}
    >
      ⋯
    </Menu>
  );
}

/** Why there is no picture. */
function NoPicture({
  page,
  isWaiting,
  rows,
  children,
}: {
  readonly page: Page;
  readonly isWaiting: boolean;
  readonly rows: readonly RunRow[];
  readonly children: string;
}): JSX.Element {
  if (isWaiting)
    return (
      <p class="groups-waiting" role="status">
        {readingText(page)}
      </p>
    );
  return rows.length === 1 ? (
    <Empty title="There is only one run">Start or show a second one to compare them.</Empty>
  ) : (
    <Empty title="There is nothing to draw">{children}</Empty>
  );
}

export function ParallelView(subject: Subject): JSX.Element {
  const { page, metric, statistic, goal } = subject;
  const { view, runs } = page;
  const brushText = view.text("parallel-brush");
  const brushes = parseBrushes(brushText.value);
  const chart = useRef<Chart<ParallelOptions> | null>(null);
  const box = useRef<HTMLDivElement>(null);
  const { ranking, isWaiting } = useRanking(subject);
  const metricId = `metric:${metric}`;
  const chosen =
    parseIds(view.text("parallel-axes").value) ??
    (isWaiting
      ? []
      : firstKeys(ranking, runs.configKeys.value, runs.fitting.value).map(
          (key) => `config:${key}`,
        ));
  // The result is at the right, and colours the lines.
  const ids = [...chosen.filter((id) => id !== metricId), ...(metric === "" ? [] : [metricId])];
  const { find, rows, isReading } = usePicture(subject, [...ids, ...brushes.keys()]);
  const isVaried = (column: Column): boolean =>
    new Set(rows.map((row) => column.valueIn(row))).size > 1;
  const axes = ids
    .map(find)
    .filter((column) => column !== null)
    .filter(isVaried)
    .slice(-MOST_AXES);
  // Where there is no room for all axes, the result and the most important keys are in view at first.
  useLayoutEffect(() => {
    if (box.current !== null) box.current.scrollLeft = box.current.scrollWidth;
  }, [axes.length]);
  const bar = (
    <div class="pane-bar">
      <ColumnDialog page={page} setting="parallel-axes" chosen={ids} />
    </div>
  );
  if (axes.length < 2)
    return (
      <>
        {bar}
        <NoPicture page={page} rows={rows} isWaiting={isWaiting || isReading}>
          These runs do not differ in the columns that are chosen.
        </NoPicture>
      </>
    );
  const kept = keptRows(rows, brushes, find);
  const setBrushes = (next: Brushes): void => {
    brushText.value = brushesText(next);
  };
  const options: ParallelOptions = {
    label: "Runs",
    axes: axes.map((column) => ({
      name: column.title,
      isMeasured: column.kind === "metric",
      ...noteOf(ranking, column),
    })),
    items: rows.map((row) => ({
      id: row.id,
      label: runs.label(row.id),
      slot: runs.slot(row.id),
      values: axes.map((column) => column.valueIn(row)),
    })),
    colorAxis: axes.at(-1)!.id === metricId ? axes.length - 1 : null,
    goal,
    brushes: new Map(
      axes.flatMap((column, index): [number, Brush][] =>
        brushes.has(column.id) ? [[index, brushes.get(column.id)!]] : [],
      ),
    ),
    highlighted: view.focus.value,
    onBrush: (next) => {
      const elsewhere = [...brushes].filter(([id]) => !axes.some((column) => column.id === id));
      setBrushes(
        new Map([
          ...elsewhere,
          ...[...next].map(([index, brush]) => [axes[index]!.id, brush] as const),
        ]),
      );
    },
    onItem: (id) => (view.focus.value = id),
  };
  return (
    <>
      {bar}
      <Section
        title="Parallel coordinates"
        note={
          brushes.size > 0
            ? `${formatWhole(kept.length)} of ${formatWhole(rows.length)} runs`
            : "drag along an axis to keep the runs that pass there; click the axis to keep all again"
        }
        tools={<Downloads title="Parallel coordinates" chart={() => chart.current} />}
      >
        <div class="parallel chart-scroll" ref={box}>
          <div style={{ minWidth: `${axes.length * AXIS_PX + 80}px` }}>
            <Mount
              height={HEIGHT}
              create={(root) => (chart.current = createParallel(root, options))}
              update={(made) => made.update(options)}
            />
          </div>
        </div>
        {brushes.size > 0 && (
          <BrushBar
            {...{
              page,
              rows,
              kept: bestFirst(kept, axes.at(-1)!, goal),
              brushes,
              statistic,
              setBrushes,
            }}
          />
        )}
      </Section>
    </>
  );
}

/** Rows from the best to the worst; in their order if the goal is not known. */
export function bestFirst(
  rows: readonly RunRow[],
  metric: Column,
  goal: Subject["goal"],
): readonly RunRow[] {
  if (goal === null) return rows;
  const valueIn = (row: RunRow): number | null => {
    const value = metric.valueIn(row);
    return typeof value === "number" && Number.isFinite(value) ? value : null;
  };
  return rows.toSorted((one, other) => compareValues(valueIn(one), valueIn(other), goal === "max"));
}

function noteOf(ranking: Importance | null, column: Column): { readonly note?: string } {
  const row = rankOf(ranking, column);
  return row?.score == null ? {} : { note: explainsText(row) };
}

function explainsText({ score, verdict }: Parameter): string {
  return verdict === "matters" ? `explains ${Math.round(score! * 100)} %` : verdict;
}

function rankOf(ranking: Importance | null, { kind, id }: Column): Parameter | undefined {
  return kind === "config"
    ? ranking?.parameters.find(({ key, same_as: others }) => [key, ...others].includes(id.slice(7)))
    : undefined;
}

interface BrushBarProps {
  readonly page: Page;
  readonly rows: readonly RunRow[];
  readonly kept: readonly RunRow[];
  readonly brushes: Brushes;
  readonly statistic: Statistic;
  readonly setBrushes: (brushes: Brushes) => void;
}

/** What to do with the runs that are kept. */
function BrushBar({
  page,
  rows,
  kept,
  brushes,
  statistic,
  setBrushes,
}: BrushBarProps): JSX.Element {
  const { runs, view, source } = page;
  const query = source.supportsQueries ? brushQuery(rows, brushes, statistic) : null;
  const filter = (): void => {
    const before = isQuery(view.filter.value) ? view.filter.value.trim() : "";
    view.filter.value = before === "" ? query! : `(${before}) and ${query!}`;
    setBrushes(new Map());
  };
  return (
    <div class="pane-bar parallel-bar">
      <button
        type="button"
        class="button is-primary"
        disabled={kept.length === 0}
        onClick={() => runs.showOnly(kept.map(({ id }) => id))}
      >
        {kept.length > MOST_SHOWN
          ? `Show the first ${MOST_SHOWN}, best first, in charts`
          : `Show these ${formatWhole(kept.length)} in charts`}
      </button>
      {query !== null && (
        <button type="button" class="button" title={query} onClick={filter}>
          Filter the run list
        </button>
      )}
      <button type="button" class="button is-quiet" onClick={() => setBrushes(new Map())}>
        Clear
      </button>
    </div>
  );
}

const OWN_COLORS: ColumnGroup = { title: "Runs", choices: [{ id: "", title: "runs in charts" }] };

export function ScatterView(subject: Subject): JSX.Element {
  const { page, metric } = subject;
  const { view, runs } = page;
  const chart = useRef<Chart<ScatterOptions> | null>(null);
  const groups = useColumnGroups(page);
  const [xId, colorId] = [view.text("scatter-x"), view.text("scatter-color")];
  const { ranking, isWaiting } = useRanking(subject);
  const { find, rows, isReading } = usePicture(subject, [xId.value, colorId.value]);
  const first = firstKeys(ranking, runs.configKeys.value, runs.fitting.value).at(-1);
  const x = find(xId.value) ?? (first === undefined || isWaiting ? null : find(`config:${first}`));
  const y = metric === "" ? null : find(`metric:${metric}`);
  const color = find(colorId.value);
  if (x === null || y === null || isReading)
    return (
      <NoPicture page={page} rows={rows} isWaiting={isWaiting || isReading}>
        {y === null ? "These runs have no metrics." : "No config value differs between these runs."}
      </NoPicture>
    );
  const row = rankOf(ranking, x);
  const items = rows.map((one) => ({
    id: one.id,
    label: runs.label(one.id),
    slot: runs.isShown(one.id) ? runs.slot(one.id) : null,
    x: x.valueIn(one),
    y: y.valueIn(one),
    color: color?.valueIn(one) ?? null,
  }));
  const goalOf = (column: Column): "min" | "max" | null =>
    page.metrics.value.find(({ name }) => `metric:${name}` === column.id)?.goal ?? null;
  const options: ScatterOptions = {
    label: "Runs",
    items,
    x: { name: x.title, isMeasured: x.kind === "metric" },
    y: { name: y.title, isMeasured: y.kind === "metric" },
    color:
      color === null
        ? null
        : {
            name: color.title,
            isMeasured: color.kind === "metric",
            isLowBest: goalOf(color) === "min",
          },
    levels: (row?.levels ?? []).map(({ value, mean, low, high }) => ({
      x:
        typeof value === "number" || value === null
          ? value
          : typeof value === "string"
            ? value
            : JSON.stringify(value),
      mean,
      low,
      high,
    })),
    note: statisticsText(
      row,
      rankCorrelation(
        items.map((item) => item.x),
        items.map((item) => item.y),
      ),
    ),
    highlighted: view.focus.value,
    onItem: (id) => (view.focus.value = id),
  };
  const title = `${y.title} by ${x.title}`;
  const numQuiet = items.filter(({ slot }) => slot === null).length;
  return (
    <Section
      title={title}
      note={
        color === null && numQuiet > 0
          ? `${formatWhole(numQuiet)} runs that are not in the charts are grey`
          : undefined
      }
      tools={<Downloads title={title} chart={() => chart.current} />}
    >
      <div class="section-body">
        <div class="pane-bar">
          <ColumnSelect
            label="x"
            groups={groups}
            value={x.id}
            onChange={(id) => (xId.value = id)}
          />
          <ColumnSelect
            label="Colour"
            groups={[OWN_COLORS, ...groups]}
            value={color?.id ?? ""}
            onChange={(id) => (colorId.value = id)}
          />
        </div>
        <Mount
          height={HEIGHT}
          create={(root) => (chart.current = createScatter(root, options))}
          update={(made) => made.update(options)}
        />
        {row !== undefined && (
          <p class="card-note is-text">
            Bars: mean and 95 % interval of each value
            {row.is_numeric && row.levels.some(({ label }) => label.includes(" – "))
              ? ", in ranges of equally many runs"
              : ""}
            .
          </p>
        )}
      </div>
    </Section>
  );
}

function ColumnSelect(props: {
  readonly label: string;
  readonly groups: readonly ColumnGroup[];
  readonly value: string;
  readonly onChange: (id: string) => void;
}): JSX.Element {
  return (
    <label class="choice">
      <span class="slider-label">{props.label}</span>
      <select
        class="select"
        value={props.value}
        onChange={(event) => props.onChange(event.currentTarget.value)}
      >
        {props.groups.map(({ title, choices }) => (
          <optgroup key={title} label={title}>
            {choices.map(({ id, title: name }) => (
              <option key={id} value={id}>
                {name}
              </option>
            ))}
          </optgroup>
        ))}
      </select>
    </label>
  );
}

/** How strong the relation is: by levels, which see a best value in the middle too, and by ranks. */
export function statisticsText(row: Parameter | undefined, correlation: number | null): string {
  const rho = row === undefined ? correlation : row.spearman;
  return [
    ...(row?.score == null ? [] : [explainsText(row)]),
    ...(rho === null ? [] : [`Spearman ρ = ${rho.toFixed(2).replace("-", "−")}`]),
  ].join(" · ");
}
