/** A table drawn as its record says: lines, points, bars, a histogram or a matrix, such as a confusion matrix. */

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";

import {
  createBars,
  createHeatmap,
  createHistogram,
  createLineChart,
  createScatter,
  formatNumberOf,
  formatPercent,
} from "../../chart/index.ts";
import type { AxisValue, Bar, Distribution, HeatmapOptions, Series } from "../../chart/index.ts";
import { equalValues } from "../../chart/distribution.ts";
import { groupBy } from "../../state/group-by.ts";
import { Mount } from "../../ui/mount.tsx";
import { cellText, compareCells, numberOf, shownText } from "./table-data.ts";
import type { TableData } from "./table-data.ts";

export interface Chart {
  readonly kind: "line" | "scatter" | "bar" | "histogram" | "matrix";
  /** Names of columns. */
  readonly x?: string;
  readonly y?: string;
  readonly color?: string;
  readonly value?: string;
  readonly title?: string;
}

const HEIGHT = 320;
const MOST_LINES = 40;
const MOST_POINTS = 20_000;
const MOST_BARS = 100;
const MOST_CLASSES = 200;
const KINDS: ReadonlySet<unknown> = new Set(["line", "scatter", "bar", "histogram", "matrix"]);

/** Null for what cannot be drawn: an unknown kind, or a column that the table does not have. */
export function parseChart(value: unknown, { columns }: TableData): Chart | null {
  const { kind, x, y, color, value: amount, title } = (value ?? {}) as Record<string, unknown>;
  const needed = kind === "histogram" || kind === "bar" ? [x ?? y] : [x, y];
  const isColumn = (name: unknown): boolean => typeof name === "string" && columns.includes(name);
  if (
    !KINDS.has(kind) ||
    !needed.every(isColumn) ||
    ![x, y, color, amount].every((name) => name == null || isColumn(name))
  )
    return null;
  const fields = Object.entries({ x, y, color, value: amount, title }).filter(
    ([, name]) => typeof name === "string",
  );
  return { kind, ...Object.fromEntries(fields) } as unknown as Chart;
}

export function ChartSpec({
  table,
  chart,
}: {
  readonly table: TableData;
  readonly chart: Chart;
}): JSX.Element {
  return (
    <figure class="chart-spec">
      {chart.title !== undefined && <figcaption>{chart.title}</figcaption>}
      <Drawn table={table} chart={chart} />
    </figure>
  );
}

function Drawn({
  table,
  chart,
}: {
  readonly table: TableData;
  readonly chart: Chart;
}): JSX.Element {
  const isNumeric = (name: string | undefined): boolean =>
    name !== undefined &&
    columnOf(table, name).every((value) => value === null || numberOf(value) !== null);
  // A line along names, and a distribution of names, are bars.
  const needsNumbers = chart.kind === "line" || chart.kind === "histogram";
  const kind = needsNumbers && !isNumeric(chart.x ?? chart.y) ? "bar" : chart.kind;
  if (kind === "line") return <Lines table={table} chart={chart} />;
  if (kind === "scatter") return <Points table={table} chart={chart} />;
  if (kind === "matrix") return <Matrix table={table} chart={chart} />;
  if (kind === "histogram")
    return <Histogram values={columnOf(table, chart.x ?? chart.y!)} name={chart.x ?? chart.y!} />;
  const { bars, numLeftOut } = barsOf(table, chart);
  return (
    <>
      <Mount
        height="auto"
        create={(root) => createBars(root, bars)}
        update={(made) => made.update(bars)}
      />
      {numLeftOut > 0 && (
        <p class="card-note">{`The table has ${formatNumberOf(numLeftOut, "more row")}.`}</p>
      )}
    </>
  );
}

function Lines({
  table,
  chart,
}: {
  readonly table: TableData;
  readonly chart: Chart;
}): JSX.Element {
  const series = useMemo(() => linesOf(table, chart), [table, chart]);
  const options = {
    title: chart.title ?? `${chart.y} by ${chart.x}`,
    xFormat: "number",
    yFormat: "number",
    xName: chart.x!,
    yName: chart.y!,
  } as const;
  return (
    <>
      <Mount
        height={HEIGHT}
        create={(root) => createLineChart(root, options)}
        update={(made) => {
          made.setOptions(options);
          made.setSeries(series.slice(0, MOST_LINES));
        }}
      />
      {series.length > MOST_LINES && (
        <p class="card-note">{`The first ${MOST_LINES} of ${formatNumberOf(series.length, "line")} are drawn.`}</p>
      )}
    </>
  );
}

/** One line for each value of `color`, along x; points of one x keep the order of the table. */
export function linesOf({ columns, rows }: TableData, { x, y, color }: Chart): readonly Series[] {
  const [xAt, yAt, colorAt] = [x, y, color].map((name) => columns.indexOf(name ?? "")) as [
    number,
    number,
    number,
  ];
  const points = rows.flatMap((row) => {
    const at = numberOf(row[xAt]);
    return at === null || !Number.isFinite(at)
      ? []
      : [{ x: at, y: numberOf(row[yAt]) ?? NaN, name: colorAt < 0 ? y! : cellText(row[colorAt]) }];
  });
  return [...groupBy(points, ({ name }) => name)].map(([label, ofLine], slot) => {
    const sorted = ofLine.toSorted((one, other) => one.x - other.x);
    return {
      id: label,
      label,
      slot,
      data: {
        kind: "raw",
        x: Float64Array.from(sorted, (point) => point.x),
        y: Float64Array.from(sorted, (point) => point.y),
      },
    };
  });
}

function Points({
  table,
  chart,
}: {
  readonly table: TableData;
  readonly chart: Chart;
}): JSX.Element {
  const [x, y, color] = [chart.x!, chart.y!, chart.color];
  const items = useMemo(() => {
    const [xs, ys, colors] = [x, y, color].map((name) =>
      name === undefined ? [] : columnOf(table, name),
    );
    const every = Math.ceil(table.rows.length / MOST_POINTS);
    return xs!.flatMap((value, row) =>
      row % every > 0
        ? []
        : [
            {
              id: String(row),
              label: `row ${row + 1}`,
              slot: 0,
              x: value,
              y: ys![row]!,
              color: colors![row] ?? null,
            },
          ],
    );
  }, [table, x, y, color]);
  const options = {
    label: chart.title ?? "Rows",
    items,
    x: { name: x, isMeasured: true },
    y: { name: y, isMeasured: true },
    color: color === undefined ? null : { name: color, isLowBest: false },
    levels: [],
    note: "",
    highlighted: null,
  };
  return (
    <>
      <Mount
        height={HEIGHT}
        create={(root) => createScatter(root, options)}
        update={(made) => made.update(options)}
      />
      {items.length < table.rows.length && (
        <p class="card-note">{`${formatNumberOf(items.length, "point")} of ${formatNumberOf(table.rows.length, "row")}, evenly apart`}</p>
      )}
    </>
  );
}

/** Values of y, or how often each value of x occurs. */
export function barsOf(
  table: TableData,
  { x, y, color }: Chart,
): { readonly bars: readonly Bar[]; readonly numLeftOut: number } {
  const names = columnOf(table, x ?? y!);
  const colors = color === undefined ? [] : columnOf(table, color);
  const labels = names.map((name, row) =>
    [name, colors[row]]
      .filter((part) => part !== undefined)
      .map(shownText)
      .join(" · "),
  );
  const counted = [...groupBy(labels, (label) => label)]
    .map(([label, same]) => [label, same.length] as const)
    .sort(([, one], [, other]) => other - one);
  const values = x === undefined || y === undefined ? [] : columnOf(table, y).map(numberOf);
  const all = values.some((value) => value !== null)
    ? labels.map((label, row) => [label, values[row] ?? null] as const)
    : counted;
  const most =
    all.reduce(
      (largest, [, value]) =>
        value !== null && Number.isFinite(value) ? Math.max(largest, Math.abs(value)) : largest,
      0,
    ) || 1;
  const bars = all.slice(0, MOST_BARS).map(
    ([label, value]): Bar => ({
      label,
      share: value !== null && Number.isFinite(value) ? Math.abs(value) / most : null,
      text: value === null ? "" : shownText(value),
      severity: value !== null && value < 0 ? "warning" : "normal",
    }),
  );
  return { bars, numLeftOut: all.length - bars.length };
}

function Histogram({
  values,
  name,
}: {
  readonly values: readonly AxisValue[];
  readonly name: string;
}): JSX.Element {
  const distribution = useMemo(
    () =>
      distributionOf(
        values
          .map(numberOf)
          .filter((value) => value !== null && Number.isFinite(value)) as number[],
      ),
    [values],
  );
  const options = { label: name, distribution, slot: 0 };
  return (
    <Mount
      height={HEIGHT}
      create={(root) => createHistogram(root, options)}
      update={(made) => made.update(options)}
    />
  );
}

/** Bins of equal width: about twice the cube root of the number of values, and one for each integer where those are few. */
export function distributionOf(values: readonly number[]): Distribution {
  const min = values.reduce((least, value) => Math.min(least, value), Infinity);
  const max = values.reduce((most, value) => Math.max(most, value), -Infinity);
  if (!(min <= max)) return { step: null, edges: new Float64Array(), counts: new Float64Array() };
  if (min === max) return { step: null, ...equalValues(min, values.length) };
  const areWhole = max - min <= 60 && values.every(Number.isInteger);
  const num = areWhole
    ? max - min + 1
    : Math.max(5, Math.min(80, Math.ceil(2 * Math.cbrt(values.length))));
  const [low, high] = areWhole ? [min - 0.5, max + 0.5] : [min, max];
  const counts = new Float64Array(num);
  for (const value of values)
    counts[Math.min(num - 1, Math.floor(((value - low) / (high - low)) * num))]! += 1;
  return {
    step: null,
    edges: Float64Array.from({ length: num + 1 }, (_, edge) => low + ((high - low) * edge) / num),
    counts,
  };
}

function Matrix({
  table,
  chart,
}: {
  readonly table: TableData;
  readonly chart: Chart;
}): JSX.Element {
  const options = useMemo(() => matrixOf(table, chart), [table, chart]);
  if (options === null)
    return (
      <p role="status">{`This matrix has more than ${MOST_CLASSES} rows or columns: see the table.`}</p>
    );
  const height = Math.max(160, Math.min(560, options.rowNames.length * 34 + 50));
  return (
    <>
      <p class="card-note">{`Rows: ${chart.y}. Columns: ${chart.x}.`}</p>
      <Mount
        height={height}
        create={(root) => createHeatmap(root, options)}
        update={(made) => made.update(options)}
      />
    </>
  );
}

/** Rows by y and columns by x; counts are coloured by their share of the row. Without a column of values, rows of the table are counted. */
export function matrixOf(table: TableData, { x, y, value, title }: Chart): HeatmapOptions | null {
  const [xs, ys] = [columnOf(table, x!), columnOf(table, y!)];
  const amounts = value === undefined ? xs.map(() => 1) : columnOf(table, value).map(numberOf);
  // Numbers ascend; names are in the order of the table, the same for rows and columns.
  const order = [...new Set([...ys, ...xs])];
  if (order.every((name) => numberOf(name) !== null))
    order.sort((one, other) => compareCells(one, other, false));
  const [rowNames, names] = [new Set(ys), new Set(xs)].map((own) =>
    order.filter((name) => own.has(name)).map(shownText),
  ) as [string[], string[]];
  if (rowNames.length > MOST_CLASSES || names.length > MOST_CLASSES) return null;
  const [rowAt, columnAt] = [rowNames, names].map(
    (all) => new Map(all.map((name, index) => [name, index])),
  ) as [Map<string, number>, Map<string, number>];
  const sums = new Float64Array(rowNames.length * names.length).fill(-Infinity);
  amounts.forEach((amount, row) => {
    const at = rowAt.get(shownText(ys[row]))! * names.length + columnAt.get(shownText(xs[row]))!;
    sums[at] = (sums[at] === -Infinity ? 0 : sums[at]!) + (amount ?? NaN);
  });
  const areCounts = sums.every((sum) => sum === -Infinity || (sum >= 0 && Number.isInteger(sum)));
  const labels = { label: title ?? `${y} by ${x}`, rowNames, columns: { names, noun: x! } };
  if (!areCounts) {
    return {
      ...labels,
      values: sums,
      ramp: sums.some((sum) => sum < 0 && sum > -Infinity) ? "diverging" : "sequential",
      cellTexts: [shownText],
      format: (sum) => (sum === -Infinity ? "no value" : shownText(sum)),
    };
  }
  const countAt = (at: number): number => Math.max(0, sums[at]!);
  const totals = rowNames.map((_, row) =>
    sums
      .subarray(row * names.length, (row + 1) * names.length)
      .reduce((total, sum) => total + Math.max(0, sum), 0),
  );
  const shares = sums.map((_, at) => countAt(at) / (totals[Math.floor(at / names.length)] || 1));
  return {
    ...labels,
    values: shares,
    ramp: "sequential",
    range: { min: 0, max: 1 },
    keyName: "Share of the row",
    cellTexts: [
      (share, at) => (countAt(at) === 0 ? "0" : `${countAt(at)} · ${Math.round(share * 100)} %`),
      (_, at) => String(countAt(at)),
    ],
    format: (share, at) => `${countAt(at)} (${formatPercent(share)} of the row)`,
  };
}

function columnOf({ columns, rows }: TableData, name: string): readonly AxisValue[] {
  const column = columns.indexOf(name);
  return rows.map((row) => {
    const value = row[column];
    return value === null || value === undefined
      ? null
      : typeof value === "number"
        ? value
        : cellText(value);
  });
}
