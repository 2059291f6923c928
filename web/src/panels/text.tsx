/** Text that was recorded at steps, such as samples of a language model: always as text, never as HTML. */

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";

import { formatWhole, slotCss } from "../chart/index.ts";
import { useEntries } from "../state/queries.ts";
import type { Page } from "../state/page.ts";
import { Empty } from "../ui/empty.tsx";
import { Segmented } from "../ui/segmented.tsx";
import type { EntryRow, RunRow } from "../wire.ts";
import type { Panel, PanelProps } from "./panel.ts";
import { FocusedRun, RunPicker } from "./parts/run-picker.tsx";
import { Section } from "./parts/section.tsx";
import { parseStep, stepAtOrBefore, StepSlider, stepsOf } from "./parts/step-slider.tsx";
import { differences } from "./text-diff.ts";
import "./text.css";

const MOST_STEPS = 400;
const MOST_RUNS = 6;

export const panel: Panel = { order: 80, id: "text", title: "Text", shortcut: "t", component: Text };

function Text({ page }: PanelProps): JSX.Element {
  return <FocusedRun page={page}>{(run) => <TextOf key={run.id} page={page} run={run} />}</FocusedRun>;
}

function TextOf({ page, run }: { readonly page: Page; readonly run: RunRow }): JSX.Element {
  const { list } = useEntries(page, "texts", run.id, { limit: 1 });
  const names = Object.keys(list?.names ?? {});
  if (list !== null && names.length === 0) {
    return (
      <div class="pane">
        <div class="pane-bar"><RunPicker page={page} /></div>
        <Empty title="This run has no text" code={'run.log({"sample": text}, step)'}>Record text samples of the model to see them here by step.</Empty>
      </div>
    );
  }
  return <Samples page={page} run={run} names={names} />;
}

function Samples({ page, run, names }: { readonly page: Page; readonly run: RunRow; readonly names: readonly string[] }): JSX.Element {
  const chosenName = page.view.text("text");
  const chosenStep = page.view.text("text-step");
  const beside = page.view.text("text-beside", "runs");
  const name = names.includes(chosenName.value) ? chosenName.value : (names[0] ?? "");
  const { list } = useEntries(page, "texts", name === "" ? null : run.id, { name, limit: MOST_STEPS, spread: true });
  const steps = useMemo(() => stepsOf(list?.entries ?? []), [list]);
  const wanted = parseStep(chosenStep.value);
  const others = page.runs.shown.value.filter(({ id }) => id !== run.id).slice(0, MOST_RUNS - 1);
  const mode = beside.value === "runs" && others.length === 0 ? "step" : beside.value;
  const current = entryAt(list?.entries ?? [], stepAtOrBefore(steps, wanted));
  const before = entryAt(list?.entries ?? [], current?.step == null ? undefined : steps.findLast((step) => step < current.step!));
  return (
    <div class="pane">
      <div class="pane-bar">
        <RunPicker page={page} />
        {names.length > 1 && (
          <select class="select" aria-label="Text" value={name} onChange={(event) => (chosenName.value = event.currentTarget.value)}>
            {names.map((one) => <option key={one} value={one}>{one}</option>)}
          </select>
        )}
        <StepSlider steps={steps} step={wanted} onChange={(step) => (chosenStep.value = step === null ? "" : String(step))} />
        <Segmented label="Compared with" value={mode} onChange={(value) => (beside.value = value)} choices={[
          { value: "none", label: "Alone" },
          { value: "step", label: "Step before" },
          ...(others.length > 0 ? [{ value: "runs", label: "Other runs" }] : []),
        ]} />
      </div>
      <div class="texts">
        {mode === "step" && before !== undefined && <Sample page={page} run={run} entry={before} base={null} />}
        <Sample page={page} run={run} entry={current} base={mode === "step" ? textOf(before) : null} />
        {mode === "runs" && others.map((other) => <OtherSample key={other.id} page={page} run={other} name={name} step={wanted} base={textOf(current)} />)}
      </div>
    </div>
  );
}

/** The same text of another run, at the same step or the last one before it. */
function OtherSample(props: { readonly page: Page; readonly run: RunRow; readonly name: string; readonly step: number | null; readonly base: string | null }): JSX.Element {
  const { page, run, name, step, base } = props;
  const { list } = useEntries(page, "texts", run.id, { name, limit: MOST_STEPS, spread: true });
  const steps = useMemo(() => stepsOf(list?.entries ?? []), [list]);
  return <Sample page={page} run={run} entry={entryAt(list?.entries ?? [], stepAtOrBefore(steps, step))} base={base} />;
}

function Sample({ page, run, entry, base }: { readonly page: Page; readonly run: RunRow; readonly entry: EntryRow | undefined; readonly base: string | null }): JSX.Element {
  const text = textOf(entry);
  const pieces = useMemo(() => (text === null ? [] : differences(base ?? text, text)), [text, base]);
  const note = entry?.step == null ? undefined : `step ${formatWhole(entry.step)}`;
  return (
    <Section title={page.runs.label(run.id)} note={note} tools={<i class="run-dot" style={{ background: slotCss(page.runs.slot(run.id)) }} />}>
      <pre class="text-sample">
        {text === null ? <span class="text-none">no text at this step</span> : pieces.map(({ text: words, isNew }, index) => (isNew ? <mark key={index}>{words}</mark> : words))}
      </pre>
    </Section>
  );
}

function entryAt(entries: readonly EntryRow[], step: number | undefined): EntryRow | undefined {
  return step === undefined ? entries.findLast((entry) => entry.step === null) : entries.findLast((entry) => entry.step === step);
}

function textOf(entry: EntryRow | undefined): string | null {
  const text = entry?.record?.["text"];
  return typeof text === "string" ? text : null;
}
