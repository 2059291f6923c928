/** Which keys of the config a metric depends on: a ranked table, and two keys together. */

import type { JSX } from "preact";

import { createHeatmap, formatNumber, formatNumberOf } from "../chart/index.ts";
import type { HeatmapOptions } from "../chart/index.ts";
import { readingText, sweepRuns, useSweep } from "../state/sweep.ts";
import { Mount } from "../ui/mount.tsx";
import type { Importance, Interaction } from "../wire.ts";
import { Choice } from "./compare.tsx";
import type { Subject } from "./compare.tsx";
import { pText } from "./compare-groups.tsx";
import { Section } from "./parts/section.tsx";

export function ImportanceView({ page, metric, statistic }: Subject): JSX.Element {
  const pair = page.view.text("importance-pair");
  const request = {
    ...sweepRuns(page),
    metric,
    value: statistic,
    ...(pair.value === "" ? {} : { pair: pair.value.split(",") }),
  };
  const {
    answer: found,
    problem,
    isWaiting,
  } = useSweep(page, metric === "" ? null : JSON.stringify(request), (source) =>
    source.importance(request),
  );
  if (found === null)
    return (
      <p class="groups-waiting" role="status">
        {problem ?? readingText(page)}
      </p>
    );
  const draw = (key: string): void => {
    page.view.text("scatter-x").value = `config:${key}`;
    page.view.text("compare", "table").value = "scatter";
  };
  return (
    <div class="groups-view" aria-busy={isWaiting}>
      <p class="groups-verdict" role="status">
        {found.sentence}
      </p>
      {found.parameters.length > 0 && (
        <Section title={`What ${found.metric} depends on`} note={runsText(found)}>
          <RankTable found={found} onChoose={draw} />
        </Section>
      )}
      {found.interaction !== null && (
        <Section
          title={`${found.interaction.keys[0]} and ${found.interaction.keys[1]} together`}
          note="mean"
          tools={
            page.source.sweep.curves !== null && (
              <PairSelect
                found={found}
                pair={found.interaction}
                onPair={(keys) => (pair.value = keys.join(","))}
              />
            )
          }
        >
          <PairMap metric={found.metric} pair={found.interaction} />
        </Section>
      )}
    </div>
  );
}

function runsText({ num_runs: runs, nonfinite, missing }: Importance): string {
  return [
    formatNumberOf(runs, "run"),
    ...(nonfinite > 0 ? [`${nonfinite} ended as nan and count as the worst`] : []),
    ...(missing > 0 ? [`${missing} without a value left out`] : []),
  ].join("; ");
}

function RankTable({
  found,
  onChoose,
}: {
  readonly found: Importance;
  readonly onChoose: (key: string) => void;
}): JSX.Element {
  return (
    <div class="groups-scroll" tabIndex={0} role="region" aria-label="Keys">
      <table class="groups-table">
        <thead>
          <tr>
            <th scope="col">key</th>
            <th
              scope="col"
              class="matters-share"
              title="The part of the order of the runs that the key explains, without what chance explains"
            >
              explains
            </th>
            <th scope="col" title="Spearman's rank correlation">
              rank correlation
            </th>
            <th scope="col" title="After Holm's correction over all keys">
              p
            </th>
            <th scope="col">best at</th>
            <th scope="col">verdict</th>
          </tr>
        </thead>
        <tbody>
          {found.parameters.map((row) => (
            <tr key={row.key} class="matters-row">
              <th scope="row">
                <button
                  type="button"
                  class="link"
                  title={`Draw ${found.metric} by ${row.key}`}
                  onClick={() => onChoose(row.key)}
                >
                  {[row.key, ...row.same_as].join(" = ")}
                </button>
              </th>
              <td>
                {row.score === null ? (
                  "–"
                ) : (
                  <span class="matters-bar">
                    <i style={{ width: `${row.score * 100}px` }} />
                    <span>{Math.round(row.score * 100)}&nbsp;%</span>
                  </span>
                )}
              </td>
              <td>{row.spearman === null ? "" : row.spearman.toFixed(2)}</td>
              <td>{pText(row.p)}</td>
              <td>{row.verdict === "matters" ? row.best : ""}</td>
              <td class={row.verdict === "matters" ? "" : "matters-quiet"}>{row.verdict}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function PairSelect({
  found,
  pair,
  onPair,
}: {
  readonly found: Importance;
  readonly pair: Interaction;
  readonly onPair: (keys: readonly string[]) => void;
}): JSX.Element {
  const [first, second] = [pair.keys[0]!, pair.keys[1]!];
  const choices = found.parameters.map(({ key }) => [key, key] as const);
  return (
    <>
      <Choice
        label="Rows"
        value={first}
        choices={choices}
        onChange={(value) => onPair([value, value === second ? first : second])}
      />
      <Choice
        label="Columns"
        value={second}
        choices={choices}
        onChange={(value) => onPair([value === first ? second : first, value])}
      />
    </>
  );
}

function isTypical(value: number, middles: readonly number[]): boolean {
  const [low, high] = [
    middles[Math.floor(middles.length / 4)]!,
    middles[Math.floor((3 * middles.length) / 4)]!,
  ];
  const reach = 10 * Math.max(high - low, Math.abs(high) * 0.05);
  return value >= low - reach && value <= high + reach;
}

/** The heat map of a pair; cells that are far from the others do not hide the differences between those. */
export function pairOptions(
  metric: string,
  { rows, columns, keys, mean, n, nonfinite }: Interaction,
): HeatmapOptions {
  const [counts, bad] = [n.flat(), nonfinite.flat()];
  // Runs that all ended as nan are not the same as no runs at all.
  const values = Float64Array.from(
    mean.flat(),
    (value, index) => value ?? (bad[index]! > 0 ? NaN : -Infinity),
  );
  const finite = [...values].filter(Number.isFinite).sort((one, other) => one - other);
  const high = finite.findLast((value) => isTypical(value, finite)) ?? 1;
  const low = finite.find((value) => isTypical(value, finite)) ?? 0;
  return {
    label: `${metric} by ${keys.join(" and ")}`,
    rowNames: rows.map((name) => `${keys[0]!.slice(keys[0]!.lastIndexOf(".") + 1)} = ${name}`),
    columns: { names: columns, noun: keys[1]! },
    values,
    ramp: "sequential",
    range: { min: low, max: high > low ? high : low + 1e-9 },
    format: (value) =>
      Number.isNaN(value)
        ? "no finite value"
        : value === -Infinity
          ? "no runs"
          : formatNumber(value),
    cellTexts: [formatNumber],
    rowNote: (row, column) => {
      const at = row * columns.length + column;
      return counts[at]! + bad[at]! === 0
        ? ""
        : `${formatNumberOf(counts[at]!, "run")}${bad[at]! > 0 ? `, and ${bad[at]} that ended as nan` : ""}`;
    },
  };
}

function PairMap({
  metric,
  pair,
}: {
  readonly metric: string;
  readonly pair: Interaction;
}): JSX.Element {
  const options = pairOptions(metric, pair);
  return (
    <div class="section-body">
      <Mount
        height={Math.max(140, pair.rows.length * 30 + 60)}
        create={(root) => createHeatmap(root, options)}
        update={(chart) => chart.update(options)}
      />
    </div>
  );
}
