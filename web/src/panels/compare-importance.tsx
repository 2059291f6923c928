/** Which keys of the config a metric depends on: a ranked table, the means of each value, and two keys together. */

import type { JSX } from "preact";

import { createHeatmap, formatNumber, formatNumberOf } from "../chart/index.ts";
import type { HeatmapOptions } from "../chart/index.ts";
import type { Page } from "../state/page.ts";
import { readingText, sweepRuns, useSweep } from "../state/sweep.ts";
import { Mount } from "../ui/mount.tsx";
import type { Importance, Interaction, Level, Parameter } from "../wire.ts";
import type { Subject } from "./compare.tsx";
import { pText } from "./compare-groups.tsx";
import { Section } from "./parts/section.tsx";

export function ImportanceView({ page, metric, statistic }: Subject): JSX.Element {
  const pair = page.view.text("importance-pair");
  const request = { ...sweepRuns(page), metric, value: statistic, ...(pair.value === "" ? {} : { pair: pair.value.split(",") }) };
  const { answer, problem, isWaiting } = useSweep(page, metric === "" ? null : JSON.stringify(request), (source) => source.importance(request));
  if (answer === null) return <p class="groups-waiting" role="status">{problem ?? readingText(page)}</p>;
  return <Ranking page={page} found={answer} isWaiting={isWaiting} onPair={(keys) => (pair.value = keys.join(","))} />;
}

interface RankingProps {
  readonly page: Page;
  readonly found: Importance;
  readonly isWaiting: boolean;
  readonly onPair: (keys: readonly string[]) => void;
}

function Ranking({ page, found, isWaiting, onPair }: RankingProps): JSX.Element {
  const chosenKey = page.view.text("importance-key");
  const chosen = found.parameters.find(({ key }) => key === chosenKey.value) ?? found.parameters[0];
  return (
    <div class="groups-view" aria-busy={isWaiting}>
      <p class="groups-verdict" role="status">{found.sentence}</p>
      {chosen !== undefined && (
        <>
          <Section title={`What ${found.metric} depends on`} note={runsText(found)}>
            <RankTable found={found} chosen={chosen.key} onChoose={(key) => (chosenKey.value = key)} />
          </Section>
          <div class="matters-pictures">
            <Section title={`${found.metric} by ${chosen.key}`} note="mean, 95 % interval, smallest to largest"><Levels row={chosen} /></Section>
            {found.interaction !== null && (
              <Section title={`${found.interaction.keys[0]} and ${found.interaction.keys[1]} together`} note="mean" tools={page.source.sweep.curves !== null && <PairSelect found={found} pair={found.interaction} onPair={onPair} />}>
                <PairMap metric={found.metric} pair={found.interaction} />
              </Section>
            )}
          </div>
        </>
      )}
    </div>
  );
}

function runsText({ num_runs: runs, nonfinite, missing }: Importance): string {
  return [formatNumberOf(runs, "run"), ...(nonfinite > 0 ? [`${nonfinite} ended as nan and count as the worst`] : []), ...(missing > 0 ? [`${missing} without a value left out`] : [])].join("; ");
}

function RankTable({ found, chosen, onChoose }: { readonly found: Importance; readonly chosen: string; readonly onChoose: (key: string) => void }): JSX.Element {
  return (
    <div class="groups-scroll" tabIndex={0} role="region" aria-label="Keys">
      <table class="groups-table">
        <thead>
          <tr>
            <th scope="col">key</th><th scope="col" class="matters-share" title="Share of the order of the runs that the key explains">explains</th><th scope="col" title="Spearman's rank correlation">rank correlation</th>
            <th scope="col" title="After Holm's correction over all keys">p</th><th scope="col">best at</th><th scope="col">verdict</th>
          </tr>
        </thead>
        <tbody>
          {found.parameters.map((row) => (
            <tr key={row.key} class={`matters-row${row.key === chosen ? " is-chosen" : ""}`} onClick={() => onChoose(row.key)}>
              <th scope="row"><button type="button" class="matters-key" aria-pressed={row.key === chosen}>{[row.key, ...row.same_as].join(" = ")}</button></th>
              <td><Share value={row.score} /></td>
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

function Share({ value }: { readonly value: number | null }): JSX.Element {
  if (value === null) return <span class="matters-quiet">–</span>;
  return <span class="matters-bar"><i style={{ width: `${Math.max(0, Math.min(1, value)) * 100}px` }} /><span>{Math.round(value * 100)}&nbsp;%</span></span>;
}

function PairSelect({ found, pair, onPair }: { readonly found: Importance; readonly pair: Interaction; readonly onPair: (keys: readonly string[]) => void }): JSX.Element {
  const [first, second] = [pair.keys[0]!, pair.keys[1]!];
  const options = found.parameters.map(({ key }) => <option key={key} value={key}>{key}</option>);
  return (
    <>
      <select class="select" aria-label="Rows" value={first} onChange={({ currentTarget: { value } }) => onPair([value, value === second ? first : second])}>{options}</select>
      <select class="select" aria-label="Columns" value={second} onChange={({ currentTarget: { value } }) => onPair([value === first ? second : first, value])}>{options}</select>
    </>
  );
}

const ROW_HEIGHT = 24;
const WIDTH = 460;
const NAME_WIDTH = 110;
const VALUE_WIDTH = 140;

/** A line for each level: the mean, its interval, and the whole range. */
function Levels({ row }: { readonly row: Parameter }): JSX.Element {
  const scale = levelScale(row.levels);
  const beyond = (value: number): number => (value > scale.high ? 1 : value < scale.low ? -1 : 0);
  const place = (value: number): number => NAME_WIDTH + scale.share(value) * (WIDTH - NAME_WIDTH - VALUE_WIDTH);
  return (
    <svg class="levels" viewBox={`0 0 ${WIDTH} ${row.levels.length * ROW_HEIGHT}`} role="img" aria-label={`${row.key}: ${row.levels.map((level) => `${level.label} ${levelText(level)}`).join("; ")}`}>
      {row.levels.map((level, index) => {
        const y = (index + 0.5) * ROW_HEIGHT;
        return (
          <g key={level.label} class={level.label === row.best ? "is-best" : ""}>
            <title>{`${level.label}: ${levelText(level)}`}</title>
            <text class="levels-name" x={NAME_WIDTH - 10} y={y + 4} text-anchor="end">{level.label}</text>
            <line x1={NAME_WIDTH} x2={WIDTH - VALUE_WIDTH} y1={y} y2={y} />
            {level.min !== null && level.max !== null && <line class="levels-range" x1={place(level.min)} x2={place(level.max)} y1={y} y2={y} />}
            {level.low !== null && level.high !== null && <line class="levels-interval" x1={place(level.low)} x2={place(level.high)} y1={y} y2={y} />}
            {level.mean !== null && <Mean x={place(level.mean)} y={y} beyond={beyond(level.mean)} />}
            <text x={WIDTH - VALUE_WIDTH + 10} y={y + 4}>{levelText(level)}</text>
          </g>
        );
      })}
    </svg>
  );
}

/** A dot, or an arrow at the edge where the mean lies beyond it. */
function Mean({ x, y, beyond }: { readonly x: number; readonly y: number; readonly beyond: number }): JSX.Element {
  if (beyond === 0) return <circle class="levels-mean" cx={x} cy={y} r={4} />;
  return <path class="levels-mean" d={`M${x - 4 * beyond} ${y - 5}L${x + 4 * beyond} ${y}L${x - 4 * beyond} ${y + 5}Z`} />;
}

function levelText({ mean, n, num_runs: runs }: Level): string {
  return `${mean === null ? "nan" : formatNumber(mean)} · ${n === runs ? n : `${n} of ${runs}`}`;
}

/** Where values lie between 0 and 1; one level that diverged does not squeeze the others: it goes to the edge. */
export function levelScale(levels: readonly Level[]): { readonly low: number; readonly high: number; share(value: number): number } {
  const middles = levels.map(({ median }) => median).filter((value) => value !== null).sort((one, other) => one - other);
  const typical = levels.filter(({ median, max, min }) => median !== null && max !== null && min !== null && isTypical(max, middles) && isTypical(min, middles));
  const shown = typical.length > 0 ? typical : levels;
  const low = Math.min(...shown.map(({ min }) => min ?? Infinity));
  const high = Math.max(...shown.map(({ max }) => max ?? -Infinity));
  return { low, high, share: (value) => (high > low ? Math.max(0, Math.min(1, (value - low) / (high - low))) : 0.5) };
}

function isTypical(value: number, middles: readonly number[]): boolean {
  const [low, high] = [middles[Math.floor(middles.length / 4)]!, middles[Math.floor((3 * middles.length) / 4)]!];
  const reach = 10 * Math.max(high - low, Math.abs(high) * 0.05);
  return value >= low - reach && value <= high + reach;
}

/** The heat map of a pair; cells that are far from the others do not hide the differences between those. */
export function pairOptions(metric: string, { rows, columns, keys, mean, n, nonfinite }: Interaction): HeatmapOptions {
  const [counts, bad] = [n.flat(), nonfinite.flat()];
  // Runs that all ended as nan are not the same as no runs at all.
  const values = Float64Array.from(mean.flat(), (value, index) => value ?? (bad[index]! > 0 ? NaN : -Infinity));
  const finite = [...values].filter(Number.isFinite).sort((one, other) => one - other);
  const high = finite.findLast((value) => isTypical(value, finite)) ?? 1;
  const low = finite.find((value) => isTypical(value, finite)) ?? 0;
  return {
    label: `${metric} by ${keys.join(" and ")}`,
    rowNames: rows.map((name) => name),
    columns: { names: columns, noun: keys[1]! },
    values,
    ramp: "sequential",
    range: { min: low, max: high > low ? high : low + 1e-9 },
    format: (value) => (Number.isNaN(value) ? "no finite value" : value === -Infinity ? "no runs" : formatNumber(value)),
    cellTexts: [formatNumber],
    rowNote: (row, column) => {
      const at = row * columns.length + column;
      return counts[at]! + bad[at]! === 0 ? "" : `${formatNumberOf(counts[at]!, "run")}${bad[at]! > 0 ? `, and ${bad[at]} that ended as nan` : ""}`;
    },
  };
}

function PairMap({ metric, pair }: { readonly metric: string; readonly pair: Interaction }): JSX.Element {
  const options = pairOptions(metric, pair);
  return <div class="section-body"><Mount height={Math.max(140, pair.rows.length * 30 + 60)} create={(root) => createHeatmap(root, options)} update={(chart) => chart.update(options)} /></div>;
}
