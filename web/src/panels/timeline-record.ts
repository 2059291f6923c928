/** What `span` and `timeline` records hold: what took long and when, and what the machine did meanwhile. */

import type { EntryRow } from "../wire.ts";

/** Something that took some time, in Unix seconds. */
export interface TimelineSpan {
  readonly lane: string;
  readonly label: string;
  readonly from: number;
  readonly to: number;
  readonly step: number | null;
  readonly rank: number;
}

export interface Track {
  readonly name: string;
  readonly start: number;
  readonly periodS: number;
  /** Nan where there was no reading. */
  readonly values: Float64Array;
}

/** A stretch that was slow, with the samples around it. */
export interface SlowStretch {
  readonly position: string;
  readonly start: number;
  readonly end: number;
  readonly reason: string;
  readonly step: number | null;
  readonly tracks: readonly Track[];
  readonly gaps: readonly TimelineSpan[];
}

export function spanOf({ record, step, rank }: EntryRow): TimelineSpan | null {
  const { name, start, duration_ms: duration } = record ?? {};
  if (typeof name !== "string" || typeof start !== "number" || typeof duration !== "number") return null;
  const lane = rank > 0 ? `${name} · rank ${rank}` : name;
  return { lane, label: name, from: start, to: start + Math.max(0, duration) / 1000, step, rank };
}

export function stretchOf({ record, position, rank, step }: EntryRow): SlowStretch | null {
  const { start, period_s: period, samples, gaps, reason } = record ?? {};
  if (typeof start !== "number" || typeof period !== "number" || !(period > 0)) return null;
  const tracks = Object.entries(isObject(samples) ? samples : {}).flatMap(([name, values]): Track[] => (
    Array.isArray(values) ? [{ name, start, periodS: period, values: Float64Array.from(values, (value) => (typeof value === "number" ? value : NaN)) }] : []
  ));
  const longest = Math.max(0, ...tracks.map(({ values }) => values.length));
  const found = (Array.isArray(gaps) ? gaps : []).flatMap((gap: unknown) => gapOf(gap, rank) ?? []);
  const end = Math.max(start + longest * period, ...found.map(({ to }) => to));
  return { position, start, end, tracks, gaps: found, step, reason: typeof reason === "string" ? reason : "a slow stretch" };
}

function gapOf(gap: unknown, rank: number): TimelineSpan | null {
  if (!isObject(gap)) return null;
  const { device, start, end, cause } = gap;
  if (typeof start !== "number" || typeof end !== "number") return null;
  const where = typeof device === "string" ? deviceName(device) : "device";
  return { lane: `${where} idle`, label: typeof cause === "string" ? cause : "no cause known", from: start, to: end, step: null, rank };
}

/** `gpu/0/util` and `gpu/0` as people say it. */
export function deviceName(name: string): string {
  const [, gpu] = /^gpu\/(\d+)/.exec(name) ?? [];
  return gpu === undefined ? (name === "cpu" ? "CPU" : name) : `GPU ${gpu}`;
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
