/** Runs in groups by their configs: what each group came to, along its training, and whether the best is shown to be better. */

import type { JSX } from "preact";

import { formatNumber, formatNumberOf, formatWhole } from "../chart/index.ts";
import { csvField } from "../chart/line/exports.ts";
import { shortNumber } from "../state/config.ts";
import { groupName } from "../state/group-keys.ts";
import type { Page } from "../state/page.ts";
import { groupKeys, readingText, sweepRuns, useSweep } from "../state/sweep.ts";
import { download } from "../ui/download.ts";
import { Empty } from "../ui/empty.tsx";
import { Menu } from "../ui/menu.tsx";
import type { MenuItem } from "../ui/menu.tsx";
import type { GroupRow, GroupTable, GroupTables } from "../wire.ts";
import { MetricChart } from "./parts/metric-chart.tsx";
import { Section } from "./parts/section.tsx";
import { UnfinishedNote } from "./parts/unfinished.tsx";
import "./compare-groups.css";

const VALUES = [["last", "Last value"], ["best", "Best value"], ["min", "Smallest value"], ["max", "Largest value"], ["mean", "Mean over the run"]] as const;
const CHART_HEIGHT = 300;
const MOST_KEYS = 200;

export function GroupsView({ page }: { readonly page: Page }): JSX.Element {
  const { view } = page;
  const [metric, setMetric] = useMetric(page);
  const value = view.text("group-value", "last");
  const choice = view.groupBy.value;
  const request = { ...sweepRuns(page), ...groupKeys(choice), metric: [metric], value: value.value };
  const { answer, problem, isWaiting } = useSweep(page, choice === null || metric === "" ? null : JSON.stringify(request), (source) => source.groups(request));
  return (
    <>
      <div class="pane-bar">
        <Menu label={`Group runs${choice === null ? ": Group by" : `: by ${groupName(choice)}`}`} items={keyItems(page, answer)}>{choice === null ? "Group by" : `by ${groupName(choice)}`} ▾</Menu>
        <MetricSelect page={page} value={metric} onChange={setMetric} />
        <select class="select" aria-label="Value of each run" value={value.value} onChange={(event) => (value.value = event.currentTarget.value)}>
          {VALUES.map(([one, label]) => <option key={one} value={one}>{label}</option>)}
        </select>
        {choice !== null && (
          <button type="button" class="button" onClick={() => {
            if (view.spread.value === "none") view.spread.value = "std";
            page.open("board");
          }}>Draw groups in charts</button>
        )}
      </div>
      {choice !== null && <UnfinishedNote page={page} unfinished={answer?.tables[0]?.unfinished} />}
      {choice === null
        ? <Empty title="Not grouped">Choose config keys, or everything but the seed: runs with the same values form a group.</Empty>
        : <Groups {...{ page, answer, problem, isWaiting, metric }} />}
    </>
  );
}

interface GroupsProps {
  readonly page: Page;
  readonly answer: GroupTables | null;
  readonly problem: string | null;
  readonly isWaiting: boolean;
  readonly metric: string;
}

function Groups({ page, answer, problem, isWaiting, metric }: GroupsProps): JSX.Element {
  const table = answer?.tables[0];
  if (problem !== null) return <p class="metric-problem" role="status">{problem}</p>;
  if (answer === null) return <p class="groups-waiting" role="status">{readingText(page)}</p>;
  if (table === undefined) return <Empty title="No values">{isWaiting ? "Reading …" : `None of these ${formatWhole(answer.runs)} runs has ${metric}.`}</Empty>;
  const isDrawn = page.view.spread.value !== "none" && !page.setNames.value.includes(table.metric);
  return (
    <div class="groups-view" aria-busy={isWaiting}>
      <p class="groups-verdict" role="status">{table.verdict}</p>
      {isDrawn && <Section title={table.metric} note={noteOf(page)}><MetricChart page={page} spec={{ series: [table.metric] }} height={CHART_HEIGHT} mostInLegend={12} /></Section>}
      <Section title={`Groups by ${answer.keys.join(", ") || "nothing"}`} note={formatNumberOf(answer.runs, "run")}
        tools={<button type="button" class="button is-quiet" onClick={() => saveCsv(answer, table)}>CSV</button>}>
        <RowTable page={page} answer={answer} table={table} />
      </Section>
      {table.differences.length > 0 && table.best !== null && <Section title={`Compared with the best: ${table.rows[table.best]!.label}`} note="95 % interval of the difference, and p; both corrected for the groups in between"><DifferenceTable table={table} /></Section>}
    </div>
  );
}

function noteOf({ view }: Page): string {
  return `${view.centre.value} of all members; crosses mark where members end`;
}

function RowTable({ page, answer, table }: { readonly page: Page; readonly answer: GroupTables; readonly table: GroupTable }): JSX.Element {
  return (
    <div class="groups-scroll" tabIndex={0}>
      <table class="groups-table">
        <thead>
          <tr>
            {answer.keys.map((key) => <th key={key} scope="col" class="is-text">{key}</th>)}
            {answer.keys.length === 0 && <th scope="col">runs</th>}
            <th scope="col">n</th><th scope="col">mean</th><th scope="col" title="95 % interval of the mean">95 %</th><th scope="col">median</th>
            <th scope="col" title="Standard deviation">std</th><th scope="col" title="Standard error of the mean">SE</th><th scope="col">min</th><th scope="col">max</th><th scope="col" title="First and third quartile">quartiles</th><th scope="col"><span class="visually-hidden">Show</span></th>
          </tr>
        </thead>
        <tbody>
          {table.rows.map((row, index) => (
            <tr key={row.label} class={index === table.best ? "is-best" : ""}>
              {(answer.keys.length === 0 ? ["all"] : row.values).map((value, at) => <th key={at} scope="row">{valueText(value)}</th>)}
              <td title={countTitle(row)}>{countOf(row)}</td>
              <td>{index === table.best && <span class="groups-best" title="Best mean">best</span>} {number(row.mean)}</td>
              <td>{row.low === null || row.high === null ? "" : `± ${formatNumber((row.high - row.low) / 2)}`}</td>
              <td>{number(row.median)}</td><td>{number(row.std)}</td><td>{number(row.se)}</td><td>{number(row.min)}</td><td>{number(row.max)}</td>
              <td>{row.q25 === null || row.q75 === null ? "" : `${formatNumber(row.q25)} – ${formatNumber(row.q75)}`}</td>
              <td class="groups-show"><button type="button" class="link" onClick={() => showMembers(page, row)}>show runs</button></td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function DifferenceTable({ table }: { readonly table: GroupTable }): JSX.Element {
  return (
    <div class="groups-scroll" tabIndex={0}>
      <table class="groups-table">
        <thead><tr><th scope="col">group</th><th scope="col">difference</th><th scope="col">95 %</th><th scope="col">p</th><th scope="col">over</th><th scope="col" class="groups-words">verdict</th></tr></thead>
        <tbody>
          {table.differences.map((one) => (
            <tr key={one.right}>
              <th scope="row">{table.rows[one.right]!.label}</th>
              <td>{formatNumber(one.difference)}</td>
              <td>{one.low === null || one.high === null ? "" : `${formatNumber(one.low)} to ${formatNumber(one.high)}`}</td>
              <td>{one.p === null ? "" : one.p < 1e-4 ? "< 0.0001" : one.p.toPrecision(2)}</td>
              <td>{one.units}{one.is_paired ? " pairs" : ""}</td>
              <td class="groups-words">{one.winner === null ? "may be as good" : "worse"}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** The metric that is looked at: the one chosen, else the evaluation loss, else the loss. */
export function useMetric({ view, metrics }: Page): readonly [string, (name: string) => void] {
  const chosen = view.text("group-metric");
  const known = metrics.value;
  const byRole = ["eval_loss", "loss"].map((role) => known.find((metric) => metric.role === role)?.name).find((name) => name !== undefined);
  const value = chosen.value !== "" ? chosen.value : (byRole ?? known.find(({ goal }) => goal !== null)?.name ?? known[0]?.name ?? "");
  return [value, (name) => (chosen.value = name)];
}

export function MetricSelect({ page, value, onChange }: { readonly page: Page; readonly value: string; readonly onChange: (name: string) => void }): JSX.Element {
  const names = [...new Set([value, ...page.metrics.value.map(({ name }) => name), ...page.setNames.value])].filter((name) => name !== "").sort();
  return (
    <label class="column-select">
      <span class="slider-label">Metric</span>
      <select class="select" value={value} onChange={(event) => onChange(event.currentTarget.value)}>
        {names.map((name) => <option key={name} value={name}>{name}</option>)}
      </select>
    </label>
  );
}

function keyItems({ view, runs }: Page, answer: GroupTables | null): readonly (MenuItem | "divider")[] {
  const choice = view.groupBy.value;
  const isBut = choice?.startsWith("-") ?? false;
  const chosen = choice === null || isBut ? [] : choice.split(",");
  const keys = runs.configKeys.value.slice(0, MOST_KEYS);
  const seeds = keys.filter((key) => /seed$/i.test(key));
  const toggle = (key: string): void => {
    const next = chosen.includes(key) ? chosen.filter((one) => one !== key) : [...chosen, key];
    view.groupBy.value = next.length === 0 ? null : next.join(",");
  };
  const isVaried = (key: string): boolean => answer === null || answer.varying.includes(key);
  return [
    { label: "No groups", isOn: choice === null, run: () => (view.groupBy.value = null) },
    ...seeds.map((key): MenuItem => ({ label: `Everything but ${key}`, isOn: choice === `-${key}`, run: () => (view.groupBy.value = `-${key}`) })),
    "divider",
    ...[...keys].sort((one, other) => Number(isVaried(other)) - Number(isVaried(one))).map((key): MenuItem => ({
      label: key, isOn: chosen.includes(key), ...(isVaried(key) ? {} : { hint: "same in all" }), run: () => toggle(key),
    })),
  ];
}

function showMembers({ runs, open }: Page, { members }: GroupRow): void {
  runs.showOnly(members.map(({ run }) => run));
  open("board");
}

function countOf({ n, members }: GroupRow): string {
  return n === members.length ? String(n) : `${n} of ${members.length}`;
}

/** Why members do not count. */
export function countTitle({ nonfinite, unfinished, missing, n }: GroupRow): string {
  const said = [[nonfinite, "ended as nan or infinity"], [unfinished, "have not finished"], [missing, "never logged it"]] as const;
  return [`${n} count`, ...said.filter(([count]) => count > 0).map(([count, words]) => `${count} ${words}`)].join("; ");
}

function saveCsv(answer: GroupTables, table: GroupTable): void {
  const numbers = ["mean", "median", "std", "se", "low", "high", "min", "max", "q25", "q75"] as const;
  const head = ["metric", ...answer.keys, "members", "n", "nonfinite", "unfinished", "missing", ...numbers];
  const lines = table.rows.map((row) => [
    table.metric, ...row.values.map(exactText), row.members.length, row.n, row.nonfinite, row.unfinished, row.missing, ...numbers.map((name) => row[name] ?? ""),
  ]);
  download(`${table.metric.replaceAll("/", "_")}-groups.csv`, [head, ...lines].map((line) => line.map((cell) => csvField(String(cell))).join(",")).join("\r\n") + "\r\n", "text/csv;charset=utf-8");
}

function number(value: number | null): string {
  return value === null ? "" : formatNumber(value);
}

export function valueText(value: unknown): string {
  return typeof value === "number" ? shortNumber(value) : exactText(value);
}

function exactText(value: unknown): string {
  return value === null ? "none" : typeof value === "object" ? JSON.stringify(value) : String(value);
}
