/** The first lines about a run: what it is called, how far it is, where it runs, and what people wrote about it. */

import type { JSX } from "preact";
import { useEffect } from "preact/hooks";

import { Editable, RunNote, RunTags } from "../../app/run-edit.tsx";
import { updateLabels } from "../../app/run-row.tsx";
import { statusLevelOf, StatusDot } from "../../app/status.tsx";
import { formatBytes, formatDuration, formatWhole } from "../../chart/index.ts";
import type { Page } from "../../state/page.ts";
import { progressOf } from "../../state/progress.ts";
import { isEnded } from "../../state/run-rows.ts";
import type { RunDetail, RunRow } from "../../wire.ts";
import { Control } from "./control.tsx";
import { phaseMeaning, phaseTone } from "./phases.ts";

/** How often the goodput of a live run is asked for again. */
const GOODPUT_MS = 60_000;

export interface RunHeadProps {
  readonly page: Page;
  readonly row: RunRow;
  /** Null until it is known. */
  readonly detail: RunDetail | null;
}

export function RunHead({ page, row, detail }: RunHeadProps): JSX.Element {
  const isLive = !isEnded(row);
  useEffect(() => {
    const timer = isLive ? setInterval(() => page.details.refetch(row.id), GOODPUT_MS) : undefined;
    return () => clearInterval(timer);
  }, [row.id, isLive]);
  return (
    <header class="run-head">
      <div class="run-head-line">
        <h2>
          <StatusDot row={row} />
          <Name key={row.id} page={page} row={row} />
        </h2>
        <StatusWords page={page} row={row} />
        <StateWords row={row} />
        {isLive && <Phase page={page} />}
        <Progress page={page} row={row} detail={detail} />
        <span class="card-space" />
        <Control key={row.id} page={page} row={row} />
      </div>
      <p class="run-facts">{detail === null ? "\u00a0" : factsText(detail)}</p>
      <div class="run-head-line">
        <RunNote key={row.id} page={page} row={row} />
        <RunTags page={page} row={row} />
      </div>
    </header>
  );
}

/** The name of the run; a click changes it in its place, and an empty one restores what was recorded. */
function Name({ page, row }: Omit<RunHeadProps, "detail">): JSX.Element {
  if (page.source.updateLabels === null) return <span>{row.name}</span>;
  return (
    <Editable
      label="Name of the run"
      text={row.name}
      class="run-title"
      title="Rename"
      onDone={(text) => void updateLabels(page, row, { name: text === "" ? null : text })}
    >
      {row.name}
    </Editable>
  );
}

/** How the run stands and, where it did not end well, what is known of why; one that lives and records nothing is stalled. */
function StatusWords({ page, row }: Omit<RunHeadProps, "detail">): JSX.Element {
  const silence =
    row.status.state === "running"
      ? page.findings.all.value?.find(({ rule, isOpen }) => rule === "silent-run" && isOpen)
      : undefined;
  if (silence !== undefined)
    return (
      <span class="run-status is-warning" title={silence.sentence}>
        stalled
      </span>
    );
  const { text, reason, state } = row.status;
  const words = reason === null ? text : `${text}: ${reason}`;
  return (
    <span class={`run-status is-${statusLevelOf(row)}`} title={words}>
      {state === "finished" ? text : words}
    </span>
  );
}

const STATE_LEVELS = {
  broken: "critical",
  suspicious: "warning",
  healthy: "running",
  unknown: "unknown",
} as const;

/** How the training is: the first cause where there is one, else a word with its reason as a tooltip. */
function StateWords({ row }: { readonly row: RunRow }): JSX.Element | null {
  const { state, sentence, is_judged: isJudged } = row.diagnosis;
  const isIll = state === "broken" || state === "suspicious";
  if (!isJudged && !isIll) return null;
  return (
    <span class={`run-status is-${STATE_LEVELS[state]}`} title={sentence}>
      {isIll ? sentence : state}
    </span>
  );
}

/** What the training says it is doing. */
function Phase({ page }: { readonly page: Page }): JSX.Element | null {
  const phase = page.marks.phase.value;
  if (phase === null) return null;
  return (
    <span
      class={`run-phase-now is-${phaseTone(phase)}`}
      title={phaseMeaning(phase) ?? "The phase of the training"}
    >
      {phase}
    </span>
  );
}

function Progress({ page, row, detail }: RunHeadProps): JSX.Element {
  const { share, done, total, unit, elapsedS, leftS } = progressOf(
    row,
    isEnded(row) ? 0 : page.now.value,
  );
  const goodput = detail?.goodput ?? null;
  const counted =
    done === null
      ? ""
      : `${unit} ${formatWhole(done)}${total === null ? "" : ` of ${formatWhole(total)}`}`;
  const words = [
    counted,
    share === null ? "" : `${Math.floor(share * 100)}\u00a0%`,
    elapsedS === null ? "" : seconds(elapsedS),
    leftS === null ? "" : `ETA ${seconds(leftS)}`,
    goodput === null ? "" : `goodput ${Math.round(100 * goodput.share)}\u00a0%`,
  ];
  return (
    <span
      class="progress"
      title={goodput === null ? "" : `Goodput ${goodput.text}. ${goodput.advice ?? ""}`}
    >
      {!(share === null && isEnded(row)) && (
        <span
          class={`progress-track${share === null ? " is-unknown" : ""}${isEnded(row) ? " is-ended" : ""}`}
          role="progressbar"
          aria-label={`Progress of ${row.name}`}
          aria-valuemin={0}
          aria-valuemax={100}
          aria-valuenow={share === null ? undefined : Math.round(share * 100)}
          aria-valuetext={counted}
        >
          <span class="progress-fill" style={{ transform: `scaleX(${share ?? 0})` }} />
        </span>
      )}
      <span class="progress-text">{words.filter((text) => text !== "").join(" · ")}</span>
    </span>
  );
}

/** Ticking tenths of seconds are unrest. */
function seconds(value: number): string {
  return formatDuration(value < 1 ? value : Math.floor(value));
}

/** Such as `2 × NVIDIA H100 (79.6 GiB) · host · 32 cores · Python 3.12 · commit 3f2a9c1 (dirty)`. */
export function factsText({ hardware, facts }: RunDetail): string {
  const gpus = new Map<string, number>();
  for (const { name, memory } of hardware) {
    const text = `${String(name ?? "GPU")}${typeof memory === "number" ? ` (${formatBytes(memory)})` : ""}`;
    gpus.set(text, (gpus.get(text) ?? 0) + 1);
  }
  const { cpu_count: cores, world_size: ranks, host, python, owner } = facts;
  const { commit, branch, dirty } = (facts.git ?? {}) as Readonly<Record<string, unknown>>;
  return [
    ...[...gpus].map(([text, count]) => (count > 1 ? `${count} × ${text}` : text)),
    typeof ranks === "number" && ranks > 1 ? `${formatWhole(ranks)} ranks` : null,
    host,
    typeof cores === "number" ? `${cores} cores` : null,
    typeof python === "string" ? `Python ${python}` : null,
    typeof owner === "string" && owner !== "" ? `by ${owner}` : null,
    typeof commit === "string"
      ? `commit ${commit.slice(0, 7)}${typeof branch === "string" ? ` on ${branch}` : ""}${dirty === true ? " (dirty)" : ""}`
      : null,
  ]
    .filter((part) => typeof part === "string" && part !== "")
    .join(" · ");
}
