/** What happened, newest first: epochs, evaluations, messages, events and findings. */

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";

import {
  formatBytes,
  formatDuration,
  formatNumber,
  formatWallClock,
  formatWhole,
} from "../chart/index.ts";
import { useEntries } from "../state/queries.ts";
import { valueText } from "../state/config.ts";
import type { Page } from "../state/page.ts";
import { download } from "../ui/download.ts";
import { Empty } from "../ui/empty.tsx";
import { SearchBox } from "../ui/search-box.tsx";
import { Segmented } from "../ui/segmented.tsx";
import { ENTRY_KINDS } from "../wire.ts";
import type { EntryRow, RunRow } from "../wire.ts";
import type { RunSection, SectionProps } from "./panel.ts";
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

export const section: RunSection = {
  order: 50,
  id: "log",
  title: "Log",
  shortcut: "l",
  component: Log,
  hasContent: (_, { recorded }) =>
    recorded.some((kind) => (ENTRY_KINDS.log as readonly string[]).includes(kind)),
};

function Log({ page, run }: SectionProps): JSX.Element {
  const kind = page.view.text("log", "all");
  const least = page.view.text("log-level", "all");
  const search = searchOf(page, "log-find");
  const [limit, setLimit] = useState(FIRST_LINES);
  const kinds = KINDS[kind.value];
  const { list, problem } = useEntries(page, "log", run.id, {
    limit,
    ...(kinds === undefined ? {} : { kind: kinds }),
  });
  const lines = useMemo(() => (list?.entries ?? []).map(logLine).reverse(), [list]);
  const levels = LEAST[least.value] ?? LEAST.all!;
  const shown = lines.filter(
    ({ level, word, text }) => levels.includes(level) && search.matches(`${word} ${text}`),
  );
  return (
    <div class="pane">
      <div class="pane-bar">
        <Segmented
          label="Which lines"
          value={kinds === undefined ? "all" : kind.value}
          onChange={(value) => (kind.value = value)}
          choices={[
            { value: "all", label: "All" },
            { value: "epochs", label: "Epochs" },
            { value: "messages", label: "Messages" },
            { value: "events", label: "Events" },
          ]}
        />
        <select
          class="select"
          aria-label="Lowest level"
          value={least.value}
          onChange={(event) => (least.value = event.currentTarget.value)}
        >
          <option value="all">Every level</option>
          <option value="info">Info and above</option>
          <option value="warning">Warnings and errors</option>
          <option value="error">Errors</option>
        </select>
        <SearchBox
          label="Find in the log"
          query={search.query}
          count={search.query === "" ? "" : String(shown.length)}
          onChange={search.onChange}
        />
        <span class="pane-bar-end">
          <button
            type="button"
            class="button"
            disabled={shown.length === 0}
            onClick={() =>
              download(`${run.name}.log`, `${shown.map(plainLine).reverse().join("\n")}\n`)
            }
          >
            Save
          </button>
        </span>
      </div>
      {problem !== null && <p role="status">{problem}</p>}
      {list !== null && lines.length === 0 && (
        <Empty title="Nothing in the log yet">
          Epochs, evaluations, messages and events of this run appear here.
        </Empty>
      )}
      {lines.length > 0 && shown.length === 0 && (
        <Empty title="No line matches">Shorten the search, or choose a lower level.</Empty>
      )}
      {kind.value === "epochs" && lines.length > 0 ? (
        <Epochs entries={list?.entries ?? []} />
      ) : (
        <Lines page={page} lines={shown} run={run} />
      )}
      {list !== null && list.total > limit && limit < MOST_LINES && (
        <button
          type="button"
          class="button"
          onClick={() => setLimit(Math.min(MOST_LINES, limit * 3))}
        >
          Show older lines, {formatWhole(list.total - limit)} more
        </button>
      )}
    </div>
  );
}

function Lines({
  page,
  lines,
  run,
}: {
  readonly page: Page;
  readonly lines: readonly LogLine[];
  readonly run: RunRow;
}): JSX.Element {
  const isRelative = page.view.x.value === "relative";
  return (
    <ol class="log" tabIndex={0} aria-label={`Log of ${run.name}`}>
      {lines.map((line) => (
        <li key={line.position} class={`log-line is-${line.level}`}>
          <time class="log-time" title={line.t === null ? "" : formatWallClock(line.t)}>
            {timeText(line.t, isRelative ? run.created : null)}
          </time>
          <span class={`log-word is-${line.word}`}>{line.word}</span>
          <span class="log-text">
            {line.rank > 0 && <span class="log-rank">rank {line.rank}</span>}
            {line.text}
          </span>
        </li>
      ))}
    </ol>
  );
}

function Epochs({ entries }: { readonly entries: readonly EntryRow[] }): JSX.Element {
  const { metrics, resources, rows } = useMemo(() => epochTable(entries), [entries]);
  return (
    <div class="epochs" role="region" aria-label="Epochs" tabIndex={0}>
      <table>
        <thead>
          <tr>
            <th scope="col">epoch</th>
            <th scope="col">took</th>
            {metrics.map((name) => (
              <th key={name} scope="col">
                {name}
              </th>
            ))}
            {resources.map((name) => (
              <th key={name} scope="col" class="epochs-resource">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, index) => (
            <tr key={index}>
              <th scope="row">{row.epoch}</th>
              <td>{row.durationS === null ? "" : formatDuration(row.durationS)}</td>
              {metrics.map((name) => (
                <td key={name}>{cellText(row.metrics[name])}</td>
              ))}
              {resources.map((name) => (
                <td key={name} class="epochs-resource">
                  {resourceText(name, row.resources[name])}
                </td>
              ))}
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
  return since === null
    ? formatWallClock(t).slice(11)
    : `+${formatDuration(Math.max(0, t - since))}`;
}

function plainLine({ t, word, text }: LogLine): string {
  return `${t === null ? "" : formatWallClock(t)}  ${word.padEnd(8)} ${text}`;
}

export type Level = "debug" | "info" | "warning" | "error";

export interface LogLine {
  readonly position: string;
  readonly t: number | null;
  readonly rank: number;
  readonly level: Level;
  /** What is shown in front: the level of a message, the kind of anything else. */
  readonly word: string;
  readonly text: string;
}

type Fields = Readonly<Record<string, unknown>>;
type Written = Pick<LogLine, "level" | "word" | "text">;

const WARNINGS = new Set(["records-lost", "sync-failed", "internal-error"]);
const LEVELS: Readonly<Record<string, Level>> = {
  trace: "debug",
  debug: "debug",
  verbose: "debug",
  info: "info",
  msg: "info",
  stdout: "info",
  stderr: "info",
  warning: "warning",
  warn: "warning",
  error: "error",
  critical: "error",
  fatal: "error",
};
const OWN_FIELDS: ReadonlySet<string> = new Set(["log", "t", "step", "rank", "name"]);

export function logLine({ position, kind, rank, t, step, record }: EntryRow): LogLine {
  const fields = record ?? {};
  const write =
    WRITERS[kind] ??
    ((all: Fields) => ({ level: "info" as const, word: kind, text: factsText(all) }));
  const { level, word, text } = write(fields, step);
  return { position, t, rank, level, word, text };
}

const WRITERS: Readonly<Record<string, (fields: Fields, step: number | null) => Written>> = {
  message: ({ level, text, duration_ms: duration }) => {
    const word = typeof level === "string" ? level : "info";
    const took = typeof duration === "number" ? ` [${formatDuration(duration / 1000)}]` : "";
    return { level: LEVELS[word] ?? "info", word, text: `${words(text)}${took}` };
  },
  event: (fields, step) => {
    const name = words(fields.name);
    if (name === "alert") {
      const { title, text, level: told } = fields;
      return {
        level: LEVELS[words(told).toLowerCase()] ?? "info",
        word: "alert",
        text: `${words(title)}${atStep(step)}${text ? `: ${words(text)}` : ""}`,
      };
    }
    const level = name === "exception" ? "error" : WARNINGS.has(name) ? "warning" : "info";
    const { traceback, ...facts } = fields;
    const trace = typeof traceback === "string" ? `\n${traceback}` : "";
    return {
      level,
      word: "event",
      text: `${name}${atStep(step)} ${factsText(facts)}`.trimEnd() + trace,
    };
  },
  epoch: ({ epoch, total, duration_s: duration, m }) => {
    const of = typeof total === "number" ? `/${total}` : "";
    const took = typeof duration === "number" ? `  [${formatDuration(duration)}]` : "";
    return {
      level: "info",
      word: "epoch",
      text: `epoch ${words(epoch)}${of}  ${metricsText(m)}${took}`,
    };
  },
  eval: ({ loss, m }, step) => ({
    level: "info",
    word: "eval",
    text: `evaluation${atStep(step)}  ${metricsText({ ...(loss === undefined ? {} : { loss }), ...fieldsOf(m) })}`,
  }),
  resume: ({ attempt, step }) => ({
    level: "info",
    word: "resume",
    text: `attempt ${words(attempt)} resumes from step ${words(step)}`,
  }),
  finish: ({ status, reason, last_step: last }) => {
    const level = status === "finished" ? "info" : status === "failed" ? "error" : "warning";
    const because = typeof reason === "string" && reason !== "" ? `: ${reason}` : "";
    return {
      level,
      word: "finish",
      text: `${words(status)}${typeof last === "number" ? ` after step ${formatWhole(last)}` : ""}${because}`,
    };
  },
  finding: ({ severity, sentence, state }) => ({
    level: severity === "error" ? "error" : severity === "info" ? "info" : "warning",
    word: "finding",
    text: `${words(sentence)}${state === "closed" ? " (resolved)" : ""}`,
  }),
};

/** Columns of the table of epochs: every metric that any epoch has, in order of first appearance. */
export interface EpochTable {
  readonly metrics: readonly string[];
  readonly resources: readonly string[];
  /** Newest first. */
  readonly rows: readonly EpochRow[];
}

export interface EpochRow {
  readonly epoch: string;
  readonly durationS: number | null;
  readonly metrics: Fields;
  readonly resources: Fields;
}

export function epochTable(entries: readonly EntryRow[]): EpochTable {
  const rows = entries
    .filter(({ kind, rank }) => kind === "epoch" && rank === 0)
    .map(({ record }): EpochRow => {
      const { epoch, total, duration_s: duration, m, resources, nonfinite } = record ?? {};
      return {
        epoch: `${words(epoch)}${typeof total === "number" ? `/${total}` : ""}`,
        durationS: typeof duration === "number" ? duration : null,
        metrics: { ...fieldsOf(m), ...fieldsOf(nonfinite) },
        resources: fieldsOf(resources),
      };
    });
  return {
    metrics: [...new Set(rows.flatMap((row) => Object.keys(row.metrics)))],
    resources: [...new Set(rows.flatMap((row) => Object.keys(row.resources)))],
    rows: rows.reverse(),
  };
}

function metricsText(metrics: unknown): string {
  return Object.entries(fieldsOf(metrics))
    .map(
      ([name, value]) =>
        `${name}=${typeof value === "number" ? formatNumber(value) : value === null ? "nan" : valueText(value)}`,
    )
    .join("  ");
}

function factsText(fields: Fields): string {
  return Object.entries(fields)
    .filter(([key]) => !OWN_FIELDS.has(key))
    .map(
      ([key, value]) =>
        `${key}=${typeof value === "number" && TIMES.has(key) ? formatWallClock(value) : valueText(value)}`,
    )
    .join(" ");
}

/** Fields of events that are times, in Unix seconds. */
const TIMES: ReadonlySet<string> = new Set(["asked", "at"]);

function atStep(step: number | null): string {
  return step === null ? "" : ` at step ${formatWhole(step)}`;
}

function fieldsOf(value: unknown): Fields {
  return typeof value === "object" && value !== null ? (value as Fields) : {};
}

function words(value: unknown): string {
  return value === undefined || value === null ? "" : valueText(value);
}
