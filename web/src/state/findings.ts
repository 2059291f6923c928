/** What the health rules found in the run in focus, each finding once as it stands now. */

import { effect, signal } from "@preact/signals";
import type { ReadonlySignal } from "@preact/signals";

import { formatBytes, formatNumber, formatWhole } from "../chart/index.ts";
import type { Update, Source } from "../source/source.ts";
import type { EntryRow } from "../wire.ts";
import { valueText } from "./config.ts";

export type Severity = "info" | "warning" | "error";

export interface Finding {
  readonly id: string;
  readonly run: string;
  readonly rule: string;
  readonly severity: Severity;
  readonly sentence: string;
  readonly advice: string | null;
  readonly series: string | null;
  /** First and last step it is about. */
  readonly steps: readonly [number, number] | null;
  readonly evidence: Readonly<Record<string, unknown>>;
  readonly isOpen: boolean;
  readonly t: number | null;
  /** The meaning of its rule, and the range in which a run is healthy; null for a rule that the server does not know. */
  readonly meaning: string | null;
  readonly healthy: string | null;
}

/** A fault of Epochal itself, of one of its members; the run is not affected. */
export interface InternalError {
  readonly member: string;
  readonly reason: string;
  readonly count: number;
}

const INTERNAL_ERROR = "internal-error";
const SEVERITIES: readonly Severity[] = ["info", "warning", "error"];

export function createFindings(source: Source, run: ReadonlySignal<string | null>) {
  /** Those that still hold before those that are over, the gravest first, then the newest; null until the first answer. */
  const all = signal<readonly Finding[] | null>(null);
  const internalErrors = signal<readonly InternalError[]>([]);
  const ask = (id: string): void => {
    source.get("findings", id, { limit: 5000 }).then(
      ({ entries }) => {
        if (run.peek() !== id) return;
        all.value = findingsOf(
          id,
          entries.filter(({ kind }) => kind === "finding"),
        );
        internalErrors.value = internalErrorsOf(entries);
      },
      () => {
        if (run.peek() === id) all.value ??= [];
      },
    );
  };
  effect(() => {
    const id = run.value;
    all.value = null;
    internalErrors.value = [];
    if (id !== null) ask(id);
  });
  return {
    all,
    internalErrors,
    apply(update: Update): void {
      const id = run.peek();
      if (id === null) return;
      if (
        update.type === "records" &&
        update.run === id &&
        update.entries.some(({ kind, name }) => kind === "finding" || name === INTERNAL_ERROR)
      )
        ask(id);
      if (update.type === "reset" && (update.run === null || update.run === id)) ask(id);
    },
  };
}

/** A finding is recorded again whenever it changes; its last record holds. */
export function findingsOf(run: string, entries: readonly EntryRow[]): readonly Finding[] {
  const byId = new Map<string, Finding>();
  for (const entry of entries) {
    const finding = findingOf(run, entry);
    byId.delete(finding.id);
    byId.set(finding.id, finding);
  }
  const place = ({ isOpen, severity }: Finding): number =>
    Number(isOpen) * SEVERITIES.length + SEVERITIES.indexOf(severity);
  return [...byId.values()].reverse().sort((one, other) => place(other) - place(one));
}

/** Each member once: what it raised first, and how often it failed in all processes. */
export function internalErrorsOf(entries: readonly EntryRow[]): readonly InternalError[] {
  const byMember = new Map<string, InternalError>();
  for (const { name, record } of entries) {
    if (name !== INTERNAL_ERROR) continue;
    const member = text(record?.member) ?? "a member";
    const count = typeof record?.count === "number" ? record.count : 1;
    const known = byMember.get(member);
    byMember.set(member, {
      member,
      reason: known?.reason ?? text(record?.reason) ?? "",
      count: (known?.count ?? 0) + count,
    });
  }
  return [...byMember.values()];
}

function findingOf(run: string, { record, t, position }: EntryRow): Finding {
  const fields = record ?? {};
  const { steps, evidence } = fields;
  return {
    run,
    t,
    id: text(fields.id) ?? position,
    rule: text(fields.rule) ?? "finding",
    severity: SEVERITIES.find((one) => one === fields.severity) ?? "warning",
    sentence: text(fields.sentence) ?? "",
    advice: text(fields.advice),
    series: text(fields.series),
    steps:
      Array.isArray(steps) && typeof steps[0] === "number"
        ? [steps[0], typeof steps[1] === "number" ? steps[1] : steps[0]]
        : null,
    evidence:
      typeof evidence === "object" && evidence !== null
        ? (evidence as Record<string, unknown>)
        : {},
    isOpen: fields.state !== "closed",
    meaning: text(fields.meaning),
    healthy: text(fields.healthy),
  };
}

function text(value: unknown): string | null {
  return typeof value === "string" && value !== "" ? value : null;
}

/** One piece of evidence as its name and its value for people: sizes as sizes, whole numbers whole. */
export function evidenceWords(name: string, value: unknown): readonly [string, string] {
  if (typeof value !== "number") return [name, valueText(value)];
  if (name.endsWith("_bytes")) return [name.slice(0, -"_bytes".length), formatBytes(value)];
  return [
    name,
    Number.isInteger(value) && Math.abs(value) < 1e15 ? formatWhole(value) : formatNumber(value),
  ];
}
