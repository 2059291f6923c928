/** Runs in groups by their configs: the numbers of each group, and how far it is from the best. */

import type { JSX } from "preact";

import { formatNumber, formatNumberOf } from "../chart/index.ts";
import { shortNumber } from "../state/config.ts";
import type { Page } from "../state/page.ts";
import type { Sweep } from "../state/sweep.ts";
import { csvField, download } from "../ui/download.ts";
import { Empty } from "../ui/empty.tsx";
import type { Difference, GroupRow, GroupTable, GroupTables } from "../wire.ts";
import { MetricChart } from "./parts/metric-chart.tsx";
import { Section } from "./parts/section.tsx";

const CHART_HEIGHT = 300;

export function GroupsView({
  page,
  sweep,
}: {
  readonly page: Page;
  readonly sweep: Sweep<GroupTables>;
}): JSX.Element | null {
  const { view, runs } = page;
  const seed = runs.configKeys.value.find((key) => /seed$/i.test(key));
  if (view.groupBy.value === null) {
    return (
      <Empty title="The runs are not grouped">
        Choose “Group”{" "}
        {matchMedia("(max-width: 760px)").matches
          ? "under “View” at the bottom"
          : "in the bar above"}
        {seed === undefined ? (
          "."
        ) : (
          <>
            , or{" "}
            <button type="button" class="link" onClick={() => (view.groupBy.value = `-${seed}`)}>
              group by everything but {seed}
            </button>
            .
          </>
        )}
      </Empty>
    );
  }
  const { answer } = sweep;
  const table = answer?.tables[0];
  if (answer === null || table === undefined) return null;
  return (
    <div class="groups-view" aria-busy={sweep.isWaiting}>
      <Section
        title={`Groups by ${answer.keys.join(", ") || "nothing"}`}
        note={formatNumberOf(answer.runs, "run")}
        tools={
          <button type="button" class="button is-quiet" onClick={() => saveCsv(answer, table)}>
            CSV
          </button>
        }
      >
        <RowTable page={page} answer={answer} table={table} />
      </Section>
      {table.differences.length > 0 && <p class="card-note is-text">{noteOf(table)}</p>}
      {!page.setNames.value.includes(table.metric) && (
        <Section title={table.metric}>
          <MetricChart
            page={page}
            spec={{ series: [table.metric] }}
            height={CHART_HEIGHT}
            mostInLegend={12}
          />
        </Section>
      )}
    </div>
  );
}

/** How to read the last columns. */
function noteOf({ differences, rows, best }: GroupTable): string {
  if (differences.every(({ p }) => p === null))
    return "No group has two runs, so there is no p value: a second seed would tell how much of a difference is chance.";
  const few =
    rows[best!]!.n < 3
      ? " It takes at least 3 repeats of the best group to call another one worse."
      : "";
  return `The p value is the chance that equal groups differ this much. It is corrected for the number of groups that are compared.${few}`;
}

function RowTable({
  page,
  answer,
  table,
}: {
  readonly page: Page;
  readonly answer: GroupTables;
  readonly table: GroupTable;
}): JSX.Element {
  const differences = new Map(table.differences.map((one) => [one.right, one]));
  return (
    <div class="groups-scroll" tabIndex={0} role="region" aria-label="Groups">
      <table class="groups-table">
        <thead>
          <tr>
            {answer.keys.map((key) => (
              <th key={key} scope="col" class="is-text">
                {key}
              </th>
            ))}
            {answer.keys.length === 0 && <th scope="col">runs</th>}
            <th scope="col">n</th>
            <th scope="col">mean</th>
            <th scope="col" title="95 % interval of the mean">
              95 %
            </th>
            <th scope="col" title="Standard deviation">
              std
            </th>
            <th scope="col">min</th>
            <th scope="col">max</th>
            <th scope="col" title="The mean minus that of the best group">
              difference
            </th>
            <th scope="col">p</th>
            <th scope="col">
              <span class="visually-hidden">Compared with the best</span>
            </th>
            <th scope="col">
              <span class="visually-hidden">Show</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {table.rows.map((row, index) => (
            <tr key={row.label} class={index === table.best ? "is-best" : ""}>
              {(answer.keys.length === 0 ? ["all"] : row.values).map((value, at) => (
                <th key={at} scope="row">
                  {valueText(value)}
                </th>
              ))}
              <td title={countTitle(row)}>
                {row.n === row.members.length ? row.n : `${row.n} of ${row.members.length}`}
              </td>
              <td>{row.mean === null ? "" : formatNumber(row.mean)}</td>
              <td>
                {row.low === null || row.high === null
                  ? ""
                  : `± ${formatNumber((row.high - row.low) / 2)}`}
              </td>
              {[row.std, row.min, row.max].map((value, at) => (
                <td key={at}>{value === null ? "" : formatNumber(value)}</td>
              ))}
              <Compared one={differences.get(index)} isBest={index === table.best} />
              <td>
                <button type="button" class="link" onClick={() => showMembers(page, row)}>
                  show runs
                </button>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** A group beside the best one. */
function Compared({
  one,
  isBest,
}: {
  readonly one: Difference | undefined;
  readonly isBest: boolean;
}): JSX.Element {
  if (one === undefined)
    return (
      <>
        <td />
        <td />
        <td class="is-text">{isBest && <span class="groups-best">best mean</span>}</td>
      </>
    );
  const range =
    one.low === null || one.high === null
      ? ""
      : `95 % interval ${formatNumber(-one.high)} to ${formatNumber(-one.low)}, `;
  return (
    <>
      <td title={`${range}over ${one.units} ${one.is_paired ? "pairs" : "repeats"}`}>
        {formatNumber(-one.difference)}
      </td>
      <td>{pText(one.p)}</td>
      <td class="is-text matters-quiet">
        {one.winner !== null ? "worse" : one.p === null ? "" : "may be as good"}
      </td>
    </>
  );
}

export function pText(p: number | null): string {
  return p === null ? "" : p < 0.001 ? "< 0.001" : p.toPrecision(2);
}

function showMembers({ runs, open }: Page, { members }: GroupRow): void {
  runs.showOnly(members.map(({ run }) => run));
  open("board");
}

/** Why members do not count. */
export function countTitle({ nonfinite, unfinished, missing, n }: GroupRow): string {
  const reasons = [
    [nonfinite, "ended as nan or infinity"],
    [unfinished, "have not finished"],
    [missing, "never logged it"],
  ] as const;
  return [
    `${n} count`,
    ...reasons.filter(([count]) => count > 0).map(([count, words]) => `${count} ${words}`),
  ].join("; ");
}

function saveCsv(answer: GroupTables, table: GroupTable): void {
  const numbers = [
    "mean",
    "median",
    "std",
    "se",
    "low",
    "high",
    "min",
    "max",
    "q25",
    "q75",
  ] as const;
  const head = [
    "metric",
    ...answer.keys,
    "members",
    "n",
    "nonfinite",
    "unfinished",
    "missing",
    ...numbers,
  ];
  const lines = table.rows.map((row) => [
    table.metric,
    ...row.values.map(exactText),
    row.members.length,
    row.n,
    row.nonfinite,
    row.unfinished,
    row.missing,
    ...numbers.map((name) => row[name] ?? ""),
  ]);
  download(
    `${table.metric.replaceAll("/", "_")}-groups.csv`,
    `${[head, ...lines]
      .map((line) => line.map((cell) => csvField(String(cell))).join(","))
      .join("\r\n")}\r\n`,
    "text/csv;charset=utf-8",
  );
}

export function valueText(value: unknown): string {
  return typeof value === "number" ? shortNumber(value) : exactText(value);
}

function exactText(value: unknown): string {
  return value === null
    ? "none"
    : typeof value === "object"
      ? JSON.stringify(value)
      : String(value);
}
