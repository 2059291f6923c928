/** Which samples the watched data loaders gave: repeats, overlap of evaluation with training, classes, padding and lengths. */

import type { JSX } from "preact";

import {
  createBars,
  formatCount,
  formatNumber,
  formatPercent,
  formatWhole,
} from "../chart/index.ts";
import type { Bar } from "../chart/index.ts";
import { useRunResponse } from "../state/queries.ts";
import { Mount } from "../ui/mount.tsx";
import type { DataEpoch, DataSplit } from "../wire.ts";
import type { RunSection, SectionProps } from "./panel.ts";
import { Section } from "./parts/section.tsx";
import "./data.css";

const SHOWN_EPOCHS = 12;
const SHOWN_BARS = 12;
const RECORD_KINDS = ["data"];

export const section: RunSection = {
  order: 100,
  id: "data",
  title: "Data",
  shortcut: "u",
  component: Data,
  hasContent: (_, { recorded }) => recorded.includes("data"),
};

function Data({ page, run }: SectionProps): JSX.Element {
  const { response, problem } = useRunResponse(page, "data", run.id, undefined, RECORD_KINDS);
  return (
    <div class="pane" aria-busy={response === null && problem === null}>
      {problem !== null && <p role="status">{problem}</p>}
      {response?.splits.map((split) => (
        <Split key={split.name} split={split} />
      ))}
    </div>
  );
}

function Split({ split }: { readonly split: DataSplit }): JSX.Element {
  const labels = barsOf(split.labels);
  const lengths = barsOf(split.lengths, (edge) => `≤ ${formatWhole(Number(edge))}`, true);
  return (
    <Section title={split.name} note={noteOf(split)} isWide>
      <div class="section-body data-split">
        <dl class="facts">
          {factsOf(split).map(({ name, text, isBad }) => [
            <dt key={name}>{name}</dt>,
            <dd key={`${name}=`} class={isBad ? "data-bad" : ""}>
              {text}
            </dd>,
          ])}
        </dl>
        <Epochs name={split.name} epochs={split.epochs} />
        {labels.length > 0 && <Bars title="Classes of the last epoch" bars={labels} />}
        {lengths.length > 0 && <Bars title="Lengths of the last epoch" bars={lengths} />}
      </div>
    </Section>
  );
}

function Bars({
  title,
  bars,
}: {
  readonly title: string;
  readonly bars: readonly Bar[];
}): JSX.Element {
  return (
    <div class="data-bars">
      <h4>{title}</h4>
      <Mount
        height="auto"
        create={(root) => createBars(root, bars)}
        update={(widget) => widget.update(bars)}
      />
    </div>
  );
}

function Epochs({
  name,
  epochs,
}: {
  readonly name: string;
  readonly epochs: readonly DataEpoch[];
}): JSX.Element {
  const shown = epochs.slice(-SHOWN_EPOCHS);
  const hasPadding = shown.some(({ padding }) => padding !== null);
  const hasInputs = shown.some(({ mean }) => mean !== null);
  const hasAttempts = shown.some(({ attempt }) => attempt !== shown[0]!.attempt);
  return (
    <div class="data-epochs" role="region" aria-label={`Epochs of ${name}`} tabIndex={0}>
      <table>
        <thead>
          <tr>
            {hasAttempts && <th scope="col">attempt</th>}
            <th scope="col">epoch</th>
            <th scope="col">samples</th>
            <th scope="col">batches</th>
            <th scope="col">repeated</th>
            {hasPadding && <th scope="col">padding</th>}
            {hasInputs && <th scope="col">inputs, mean ± deviation</th>}
          </tr>
        </thead>
        <tbody>
          {shown.map((one) => (
            <tr key={`${one.attempt} ${one.epoch}`}>
              {hasAttempts && <td>{one.attempt}</td>}
              <th scope="row">
                {one.epoch}
                {one.complete ? "" : " …"}
              </th>
              <td>{formatWhole(one.samples)}</td>
              <td>{formatWhole(one.batches)}</td>
              <td>{shareText(one.repeated)}</td>
              {hasPadding && <td>{shareText(one.padding)}</td>}
              {hasInputs && (
                <td>
                  {one.mean === null
                    ? "–"
                    : `${formatNumber(one.mean)} ± ${formatNumber(one.std ?? Number.NaN)}`}
                </td>
              )}
            </tr>
          ))}
        </tbody>
      </table>
      {epochs.length > shown.length && (
        <p class="card-note">
          the last {shown.length} of {epochs.length} epochs
        </p>
      )}
    </div>
  );
}

function shareText(share: number | null): string {
  return share === null ? "–" : formatPercent(share);
}

export function noteOf(split: DataSplit): string {
  const parts = [split.is_training ? "training data" : "evaluation data"];
  if (split.sampler !== "") parts.push(split.sampler);
  if (split.workers > 0) parts.push(split.workers === 1 ? "1 worker" : `${split.workers} workers`);
  if (split.ranks > 1) parts.push(`${split.ranks} ranks`);
  return parts.join(" · ");
}

export interface Fact {
  readonly name: string;
  readonly text: string;
  readonly isBad: boolean;
}

/** What the split comes to, from its last epoch; what is not known is left out. */
export function factsOf(split: DataSplit): Fact[] {
  const facts: Fact[] = [];
  const add = (name: string, text: string, isBad = false): void =>
    void facts.push({ name, text, isBad });
  const last = split.epochs.at(-1);
  if (last !== undefined) {
    const of =
      split.dataset_samples === null
        ? ""
        : ` of ${formatCount(split.dataset_samples)} in the dataset`;
    add("Samples per epoch", `${formatCount(last.samples)}${of}`);
    if (last.repeated !== null)
      add(
        "Repeated",
        `${formatPercent(last.repeated)} of ${formatCount(last.compared)} compared`,
        last.repeated >= 0.02,
      );
  }
  for (const { training, by, share, error, compared } of split.overlaps) {
    const within = error > 0 ? ` ± ${formatPercent(error)}` : "";
    add(
      `In ${training}, by ${by}`,
      `${formatPercent(share)}${within} of ${formatCount(compared)} compared`,
      share >= 0.01,
    );
  }
  if (split.one_class !== null)
    add(
      "Batches of one class",
      formatPercent(split.one_class),
      split.one_class >= 0.5 && Object.keys(split.labels).length > 1,
    );
  if (last?.padding != null) add("Padding", formatPercent(last.padding), last.padding >= 0.5);
  if (split.mean_length !== null) add("Mean length", formatNumber(split.mean_length));
  if (split.nonfinite > 0) add("Not finite", `${formatCount(split.nonfinite)} samples`, true);
  if (split.constant > 0) add("Constant", `${formatCount(split.constant)} samples`);
  if (split.on_device > 0)
    add("On a device", `${formatCount(split.on_device)} batches, which are not read`);
  return facts;
}

/** Counts as bars of their shares: the most frequent first, or in their order; the rest as one. */
export function barsOf(
  counts: Readonly<Record<string, number>>,
  label = (name: string): string => name,
  isOrdered = false,
): Bar[] {
  const all = Object.entries(counts);
  const total = all.reduce((sum, [, count]) => sum + count, 0);
  const sorted = isOrdered ? all : all.sort(([, one], [, other]) => other - one);
  const bar = (name: string, count: number): Bar => ({
    label: name,
    share: total > 0 ? count / total : null,
    text: `${formatCount(count)} · ${formatPercent(count / total)}`,
  });
  const shown = sorted.slice(0, SHOWN_BARS).map(([name, count]) => bar(label(name), count));
  const rest = sorted.slice(SHOWN_BARS);
  return rest.length === 0
    ? shown
    : [
        ...shown,
        bar(
          `${rest.length} more`,
          rest.reduce((sum, [, count]) => sum + count, 0),
        ),
      ];
}
