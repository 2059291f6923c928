/** What happened, newest first: epochs, evaluations, messages, events and findings. */

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";

import { formatBytes, formatDuration, formatNumber, formatWallClock, formatWhole } from "../chart/index.ts";
import { useEntries } from "../state/queries.ts";
import { valueText } from "../state/config.ts";
import type { Page } from "../state/page.ts";
import { download } from "../ui/download.ts";
import { Empty } from "../ui/empty.tsx";
import { SearchBox } from "../ui/search-box.tsx";
import { Segmented } from "../ui/segmented.tsx";
import type { EntryRow, RunRow } from "../wire.ts";
import { epochTable, logLine } from "./log-lines.ts";
import type { Level, LogLine } from "./log-lines.ts";
import type { PanelProps, Section as RunSection } from "./panel.ts";
import { FocusedRun, RunPicker } from "./parts/run-picker.tsx";
import { searchOf } from "./parts/search.ts";
import "./log.css";

const FIRST_LINES = 500;
const MOST_LINES = 5000;
const KINDS: Readonly<Record<string, readonly string[]>> = {
  epochs: ["epoch"],
  messages: ["message"],
  events: ["event", "resume", "finish", "finding"],
};
const LEAST: Readonly<Record<string, readonly Level[]>> = {
  all: ["debug", "info", "warning", "error"],
  info: ["info", "warning", "error"],
  warning: ["warning", "error"],
  error: ["error"],
};

export const section: RunSection = { order: 120, id: "log", title: "Log", shortcut: "l", component: Log, hasContent: () => true };

function Log({ page }: PanelProps): JSX.Element {
  return <FocusedRun page={page}>{(run) => <LogOf key={run.id} page={page} run={run} />}</FocusedRun>;
}

function LogOf({ page, run }: { readonly page: Page; readonly run: RunRow }): JSX.Element {
  const kind = page.view.text("log", "all");
  const least = page.view.text("log-level", "all");
  const search = searchOf(page, "log-find");
  const [limit, setLimit] = useState(FIRST_LINES);
  const kinds = KINDS[kind.value];
  const { list, problem } = useEntries(page, "log", run.id, { limit, ...(kinds === undefined ? {} : { kind: kinds }) });
  const lines = useMemo(() => (list?.entries ?? []).map(logLine).reverse(), [list]);
  const levels = LEAST[least.value] ?? LEAST["all"]!;
  const shown = lines.filter(({ level, word, text }) => levels.includes(level) && search.matches(`${word} ${text}`));
  return (
    <div class="pane">
      <div class="pane-bar">
        <RunPicker page={page} />
        <Segmented label="Which lines" value={kinds === undefined ? "all" : kind.value} onChange={(value) => (kind.value = value)} choices={[
          { value: "all", label: "All" }, { value: "epochs", label: "Epochs" }, { value: "messages", label: "Messages" }, { value: "events", label: "Events" },
        ]} />
        <select class="select" aria-label="Lowest level" value={least.value} onChange={(event) => (least.value = event.currentTarget.value)}>
          <option value="all">Every level</option>
          <option value="info">Info and above</option>
          <option value="warning">Warnings and errors</option>
          <option value="error">Errors</option>
        </select>
        <SearchBox label="Find in the log" query={search.query} count={search.query === "" ? "" : String(shown.length)} onChange={search.onChange} />
        <span class="pane-bar-end">
          <button type="button" class="button" disabled={shown.length === 0} onClick={() => download(`${run.name}.log`, shown.map(plainLine).reverse().join("\n") + "\n")}>Save</button>
        </span>
      </div>
      {problem !== null && <p role="status">{problem}</p>}
      {list !== null && lines.length === 0 && <Empty title="Nothing in the log yet">Epochs, evaluations, messages and events of this run appear here.</Empty>}
      {lines.length > 0 && shown.length === 0 && <Empty title="No line matches">Shorten the search, or choose a lower level.</Empty>}
      {kind.value === "epochs" && lines.length > 0 ? <Epochs entries={list?.entries ?? []} /> : <Lines page={page} lines={shown} run={run} />}
      {list !== null && list.total > limit && limit < MOST_LINES && (
        <button type="button" class="button" onClick={() => setLimit(Math.min(MOST_LINES, limit * 3))}>Show older lines, {formatWhole(list.total - limit)} more</button>
      )}
    </div>
  );
}

function Lines({ page, lines, run }: { readonly page: Page; readonly lines: readonly LogLine[]; readonly run: RunRow }): JSX.Element {
  const isRelative = page.view.x.value === "relative";
  return (
    <ol class="log" aria-label={`Log of ${run.name}`}>
      {lines.map((line) => (
        <li key={line.position} class={`log-line is-${line.level}`}>
          <time class="log-time" title={line.t === null ? "" : formatWallClock(line.t)}>{timeText(line.t, isRelative ? run.created : null)}</time>
          <span class={`log-word is-${line.word}`}>{line.word}</span>
          <span class="log-text">{line.rank > 0 && <span class="log-rank">rank {line.rank}</span>}{line.text}</span>
        </li>
      ))}
    </ol>
  );
}

function Epochs({ entries }: { readonly entries: readonly EntryRow[] }): JSX.Element {
  const { metrics, resources, rows } = useMemo(() => epochTable(entries), [entries]);
  return (
    <div class="epochs">
      <table>
        <thead>
          <tr>
            <th scope="col">epoch</th>
            <th scope="col">took</th>
            {metrics.map((name) => <th key={name} scope="col">{name}</th>)}
            {resources.map((name) => <th key={name} scope="col" class="epochs-resource">{name}</th>)}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, index) => (
            <tr key={index}>
              <th scope="row">{row.epoch}</th>
              <td>{row.durationS === null ? "" : formatDuration(row.durationS)}</td>
              {metrics.map((name) => <td key={name}>{cellText(row.metrics[name])}</td>)}
              {resources.map((name) => <td key={name} class="epochs-resource">{resourceText(name, row.resources[name])}</td>)}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function cellText(value: unknown): string {
  if (value === undefined || value === null) return "";
  return typeof value === "number" ? formatNumber(value) : valueText(value);
}

function resourceText(name: string, value: unknown): string {
  if (typeof value !== "number") return cellText(value);
  return name.endsWith("_pct") ? `${value.toFixed(1)}\u00a0%` : formatBytes(value);
}

function timeText(t: number | null, since: number | null): string {
  if (t === null) return "";
  return since === null ? formatWallClock(t).slice(11) : `+${formatDuration(Math.max(0, t - since))}`;
}

function plainLine({ t, word, text }: LogLine): string {
  return `${t === null ? "" : formatWallClock(t)}  ${word.padEnd(8)} ${text}`;
}
