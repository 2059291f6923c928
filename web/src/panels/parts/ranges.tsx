/** Between which values a training is usually well, and where this run stands. */

import type { JSX } from "preact";

import { useSeriesQueries } from "../../state/queries.ts";
import { lastOf } from "../../state/append-points.ts";
import type { Page } from "../../state/page.ts";
import type { MetricRow, RunRow } from "../../wire.ts";
import { MEASURES } from "./measures.ts";
import type { Judgement, Measure } from "./measures.ts";

const WORDS: Readonly<Record<Judgement, string>> = { good: "well", warning: "worth a look", critical: "not well" };

export function Ranges({ page, run }: { readonly page: Page; readonly run: RunRow }): JSX.Element {
  const metrics = page.details.of(run.id).value?.metrics ?? [];
  const found = MEASURES.map((measure) => ({ measure, metric: metrics.find(({ name }) => measure.names.test(name)) }));
  const known = found.flatMap(({ metric }) => metric ?? []);
  const cells = useSeriesQueries(page, known.map(({ name, axis }) => ({ run: run.id, name, axis, x: axis === "time" ? "wall" as const : axis, range: null, pixels: 300 })));
  const latest = (metric: MetricRow): number | null => {
    const data = cells[known.indexOf(metric)]?.parts?.[0]?.data;
    return data === undefined ? null : lastOf(data);
  };
  return (
    <details class="ranges">
      <summary>Healthy ranges</summary>
      <table>
        <thead><tr><th scope="col">Measure</th><th scope="col">Now</th><th scope="col">Healthy</th><th scope="col">Worrying</th></tr></thead>
        <tbody>
          {found.map(({ measure, metric }) => (
            <tr key={measure.label}>
              <th scope="row">{measure.label}</th>
              <td><Now measure={measure} value={metric === undefined ? null : latest(metric)} /></td>
              <td>{measure.healthy}</td>
              <td>{measure.worrying}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </details>
  );
}

function Now({ measure, value }: { readonly measure: Measure; readonly value: number | null }): JSX.Element {
  if (value === null) return <span class="card-note">—</span>;
  const judged = measure.judge(value);
  return <span class={judged === null ? "" : `is-${judged}`} title={judged === null ? undefined : WORDS[judged]}>{measure.format(value)}{judged !== null && <span class="visually-hidden">, {WORDS[judged]}</span>}</span>;
}
