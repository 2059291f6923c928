/** Records of a run's log as lines for people. */

import { formatDuration, formatNumber, formatWhole } from "../chart/index.ts";
import { valueText } from "../state/config.ts";
import type { EntryRow } from "../wire.ts";

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

const LEVELS: Readonly<Record<string, Level>> = {
  trace: "debug", debug: "debug", verbose: "debug", info: "info", msg: "info", stdout: "info", stderr: "info",
  warning: "warning", warn: "warning", error: "error", critical: "error", fatal: "error",
};
const OWN_FIELDS: ReadonlySet<string> = new Set(["log", "t", "step", "rank", "name"]);

export function logLine({ position, kind, rank, t, step, record }: EntryRow): LogLine {
  const fields = record ?? {};
  const write = WRITERS[kind] ?? ((all: Fields) => ({ level: "info" as const, word: kind, text: factsText(all) }));
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
    const name = words(fields["name"]);
    if (name === "alert") {
      const { title, text, level: told } = fields;
      return { level: LEVELS[words(told).toLowerCase()] ?? "info", word: "alert", text: `${words(title)}${atStep(step)}${text ? `: ${words(text)}` : ""}` };
    }
    const level = name === "exception" ? "error" : name === "records-lost" || name === "internal-error" ? "warning" : "info";
    const { traceback, ...facts } = fields;
    const trace = typeof traceback === "string" ? `\n${traceback}` : "";
    return { level, word: "event", text: `${name}${atStep(step)} ${factsText(facts)}`.trimEnd() + trace };
  },
  epoch: ({ epoch, total, duration_s: duration, m }) => {
    const of = typeof total === "number" ? `/${total}` : "";
    const took = typeof duration === "number" ? `  [${formatDuration(duration)}]` : "";
    return { level: "info", word: "epoch", text: `epoch ${words(epoch)}${of}  ${metricsText(m)}${took}` };
  },
  eval: ({ loss, m }, step) => ({ level: "info", word: "eval", text: `evaluation${atStep(step)}  ${metricsText({ ...(loss === undefined ? {} : { loss }), ...fieldsOf(m) })}` }),
  resume: ({ attempt, step }) => ({ level: "info", word: "resume", text: `attempt ${words(attempt)} resumes from step ${words(step)}` }),
  finish: ({ status, reason, last_step: last }) => {
    const level = status === "finished" ? "info" : status === "failed" ? "error" : "warning";
    const because = typeof reason === "string" && reason !== "" ? `: ${reason}` : "";
    return { level, word: "finish", text: `${words(status)}${typeof last === "number" ? ` after step ${formatWhole(last)}` : ""}${because}` };
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
  const rows = entries.filter(({ kind, rank }) => kind === "epoch" && rank === 0).map(({ record }): EpochRow => {
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
  return Object.entries(fieldsOf(metrics)).map(([name, value]) => `${name}=${typeof value === "number" ? formatNumber(value) : value === null ? "nan" : valueText(value)}`).join("  ");
}

function factsText(fields: Fields): string {
  return Object.entries(fields).filter(([key]) => !OWN_FIELDS.has(key)).map(([key, value]) => `${key}=${valueText(value)}`).join(" ");
}

function atStep(step: number | null): string {
  return step === null ? "" : ` at step ${formatWhole(step)}`;
}

function fieldsOf(value: unknown): Fields {
  return typeof value === "object" && value !== null ? (value as Fields) : {};
}

function words(value: unknown): string {
  return value === undefined || value === null ? "" : valueText(value);
}
