/** The line at the top: where one is, how the run in focus stands, and how far it is. */

import type { Signal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";

import { formatDuration, formatWhole } from "../chart/index.ts";
import { progressOf } from "../state/progress.ts";
import type { Progress } from "../state/progress.ts";
import type { Page } from "../state/page.ts";
import { chosenProjects } from "../state/projects.ts";
import { isEnded } from "../state/run-rows.ts";
import { Menu } from "../ui/menu.tsx";
import { phaseMeaning, phaseTone } from "../panels/parts/phases.ts";
import type { Goodput, RunRow } from "../wire.ts";
import { statusLevelOf, StatusDot } from "./status.tsx";
import { THEMES } from "./theme.ts";
import type { Theme } from "./theme.ts";

/** How often the goodput of a live run is asked for again. */
const GOODPUT_MS = 60_000;

export interface TopBarProps {
  readonly page: Page;
  readonly theme: Signal<Theme>;
  readonly onDrawer: () => void;
  readonly onShortcuts: () => void;
}

export function TopBar({ page, theme, onDrawer, onShortcuts }: TopBarProps): JSX.Element {
  const row = page.runs.focus.value;
  return (
    <header class="top">
      <button type="button" class="button is-quiet top-drawer" aria-label="Runs" title="Runs" onClick={onDrawer}>☰</button>
      <h1 class="brand">Epochal</h1>
      <Projects page={page} />
      {row !== null && <FocusedRun page={page} row={row} />}
      <span class="top-space" />
      <Live page={page} />
      <Menu label="Theme" items={THEMES.map((one) => ({ label: THEME_NAMES[one], isOn: theme.value === one, run: () => (theme.value = one) }))}>◐</Menu>
      <button type="button" class="button is-quiet top-help" aria-label="Keyboard shortcuts" title="Keyboard shortcuts (?)" onClick={onShortcuts}>?</button>
    </header>
  );
}

const THEME_NAMES: Readonly<Record<Theme, string>> = { system: "As the system", light: "Light", dark: "Dark" };

function Projects({ page }: { readonly page: Page }): JSX.Element | null {
  const { projects } = page.runs;
  const { project } = page.view;
  if (projects.value.length < 2) return projects.value.length === 0 ? null : <span class="top-project">{projects.value[0]}</span>;
  const items = [null, ...projects.value].map((one) => ({
    label: one ?? "All projects",
    isOn: project.value === one,
    run: () => {
      project.value = one;
      page.view.shown.value = null;
      page.view.focus.value = null;
    },
  }));
  const several = chosenProjects(project.value, projects.value);
  return <span class="top-project"><Menu label={`Project: ${several?.join(", ") ?? "All projects"}`} items={[...items, "divider", { label: "Overview of projects…", hint: "q", run: () => page.open("projects") }]}>{several?.join(", ") ?? "All projects"} ▾</Menu></span>;
}

function FocusedRun({ page, row }: { readonly page: Page; readonly row: RunRow }): JSX.Element {
  const progress = progressOf(row, page.now.value);
  const isLive = !isEnded(row);
  useEffect(() => {
    const timer = isLive ? setInterval(() => page.details.refetch(row.id), GOODPUT_MS) : undefined;
    return () => clearInterval(timer);
  }, [row.id, isLive]);
  return (
    <>
      <span class="top-run" title={row.notes ?? row.name}><StatusDot row={row} /><b>{row.name}</b></span>
      <StatusWords page={page} row={row} />
      <Phase page={page} row={row} />
      <ProgressBar row={row} progress={progress} goodput={page.details.of(row.id).value?.goodput ?? null} />
    </>
  );
}

/** How the run stands and, where it did not end well, what is known of why; one that lives and says nothing is stalled. */
function StatusWords({ page, row }: { readonly page: Page; readonly row: RunRow }): JSX.Element {
  const silence = row.status.state === "running" ? page.findings.all.value?.find(({ rule, isOpen }) => rule === "silent-run" && isOpen) : undefined;
  if (silence !== undefined) return <span class="top-status is-warning" title={silence.sentence}>stalled</span>;
  const { text, reason } = row.status;
  const words = reason === null ? text : `${text}: ${reason}`;
  return <span class={`top-status is-${statusLevelOf(row)}`} title={words}>{row.status.state === "finished" ? text : words}</span>;
}

/** What the training is doing by its own word, while it runs. */
function Phase({ page, row }: { readonly page: Page; readonly row: RunRow }): JSX.Element | null {
  const phase = page.marks.phase.value;
  if (phase === null || isEnded(row)) return null;
  return <span class={`top-phase is-${phaseTone(phase)}`} title={phaseMeaning(phase) ?? "The phase of the training"}>{phase}</span>;
}

function ProgressBar({ row, progress, goodput }: { readonly row: RunRow; readonly progress: Progress; readonly goodput: Goodput | null }): JSX.Element {
  const { share, done, total, unit, elapsedS, leftS } = progress;
  const counted = done === null ? "" : `${unit} ${formatWhole(done)}${total === null ? "" : ` of ${formatWhole(total)}`}`;
  const times = [
    elapsedS === null ? "" : `${seconds(elapsedS)}`,
    leftS === null ? "" : `ETA ${seconds(leftS)}`,
    goodput === null ? "" : `goodput ${Math.round(100 * goodput.share)}\u00a0%`,
  ].filter((text) => text !== "");
  const title = [
    elapsedS === null ? "" : `${seconds(elapsedS)} since the start.`,
    goodput === null ? "" : `Goodput ${goodput.text}. ${goodput.advice ?? ""}`,
  ].join(" ").trim();
  return (
    <span class="progress" title={title}>
      <span class={`progress-track${share === null ? " is-unknown" : ""}${isEnded(row) ? " is-ended" : ""}`} role="progressbar" aria-label={`Progress of ${row.name}`}
        aria-valuemin={0} aria-valuemax={100} aria-valuenow={share === null ? undefined : Math.round(share * 100)} aria-valuetext={counted}>
        <span class="progress-fill" style={{ transform: `scaleX(${share ?? 0})` }} />
      </span>
      <span class="progress-text">{[counted, share === null ? "" : `${Math.floor(share * 100)}\u00a0%`].filter((text) => text !== "").join(" · ")}</span>
      <span class="progress-time">{times.join(" · ")}</span>
    </span>
  );
}

/** Ticking tenths of seconds are unrest. */
function seconds(value: number): string {
  return formatDuration(value < 1 ? value : Math.floor(value));
}

function Live({ page }: { readonly page: Page }): JSX.Element | null {
  const state = page.source.connection.value;
  if (state === "archive") return <span class="live is-archive" title="Archive: a saved page that does not update">saved page</span>;
  if (state === "lost") return <span class="live is-lost" role="status" title="The server does not respond; the page reconnects automatically">reconnecting…</span>;
  const isPaused = page.isPaused.value;
  return (
    <button type="button" class={`live${isPaused ? " is-paused" : ""}`} aria-pressed={isPaused} title={isPaused ? "Paused: go on (p)" : "Live: pause (p)"}
      onClick={() => (page.isPaused.value = !isPaused)}>
      {isPaused ? "paused" : state === "live" ? "live" : "…"}
    </button>
  );
}
