/** A timeline in lanes: epochs, evaluations, saves and other long phases, what the GPUs did, and why they were idle. */

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";

import { createLanes } from "../../chart/index.ts";
import type { Lane, LanesOptions, Level, Range, Span } from "../../chart/index.ts";
import { useEntries } from "../../state/queries.ts";
import { groupBy } from "../../state/group-by.ts";
import type { PlacedMark } from "../../state/marks.ts";
import type { Page } from "../../state/page.ts";
import { csvField, download } from "../../ui/download.ts";
import { Menu } from "../../ui/menu.tsx";
import { Mount } from "../../ui/mount.tsx";
import type { EntryList, EntryRow, RunRow } from "../../wire.ts";
import { Section } from "./section.tsx";
import { phaseSlot } from "./step-phases.ts";

const MOST_RECORDS = 2000;
const LANE_PX = 26;
const WHOLE = "whole";
const IDLE_SLOT = 5;
const EPOCH_SLOT = 11;
const LEVEL_SLOT = 4;

export interface Timeline {
  readonly list: EntryList;
  readonly spans: readonly TimelineSpan[];
  readonly stretches: readonly SlowStretch[];
}

/** Null until it is known. */
export function useTimeline(page: Page, run: RunRow): Timeline | null {
  const { list } = useEntries(page, "timeline", run.id, { limit: MOST_RECORDS });
  return useMemo(
    () =>
      list === null
        ? null
        : {
            list,
            spans: list.entries.flatMap((entry) =>
              entry.kind === "span" ? (spanOf(entry) ?? []) : [],
            ),
            stretches: list.entries.flatMap((entry) =>
              entry.kind === "timeline" ? (stretchOf(entry) ?? []) : [],
            ),
          },
    [list],
  );
}

export function TimelineSection({
  page,
  run,
  timeline,
}: {
  readonly page: Page;
  readonly run: RunRow;
  readonly timeline: Timeline;
}): JSX.Element {
  const { spans, stretches, list } = timeline;
  const chosen = page.view.text("timeline");
  const zoom = page.view.text("timeline-zoom");
  const isWall = page.view.x.value === "wall";
  const origin = isWall ? 0 : (run.created ?? 0);
  const stretch =
    stretches.find(({ position }) => position === chosen.value) ??
    (chosen.value === WHOLE ? undefined : stretches.at(-1));
  const marks = page.marks.onAxis("wall");
  const lanes = useMemo(
    () => lanesOf({ spans, stretches, marks, origin, created: run.created }),
    [spans, stretches, marks, origin, run.created],
  );
  const zoomed = parseRange(zoom.value);
  const range =
    zoomed ??
    (stretch === undefined ? null : { min: stretch.start - origin, max: stretch.end - origin });
  const options: LanesOptions = {
    label: "Timeline",
    lanes,
    range,
    format: isWall || run.created === null ? "wall" : "relative",
    onZoom: ({ min, max }) => (zoom.value = `${min}..${max}`),
  };
  const select = (value: string): void => {
    chosen.value = value;
    zoom.value = "";
  };
  const tools = (
    <>
      {zoomed !== null && (
        <button type="button" class="button is-quiet" onClick={() => (zoom.value = "")}>
          Reset zoom
        </button>
      )}
      <Menu
        label="Downloads of the timeline"
        items={[
          {
            label: "Download JSON",
            hint: "the records",
            run: () =>
              download(
                `${run.name} timeline.json`,
                JSON.stringify(
                  list.entries.map(({ record }) => record),
                  null,
                  1,
                ),
                "application/json",
              ),
          },
          {
            label: "Download CSV",
            run: () =>
              download(
                `${run.name} timeline.csv`,
                timelineTable(allOf(timeline)),
                "text/csv;charset=utf-8",
              ),
          },
        ]}
      >
        ⋯
      </Menu>
    </>
  );
  return (
    <Section title="Timeline" note="drag to zoom" tools={tools} isWide>
      <div class="section-body">
        <label class="timeline-choice">
          <span class="visually-hidden">Stretch</span>
          <select
            class="select"
            value={stretch?.position ?? WHOLE}
            onChange={(event) => select(event.currentTarget.value)}
          >
            <option value={WHOLE}>The whole run</option>
            {stretches.toReversed().map(({ position, reason }) => (
              <option key={position} value={position}>
                {reason}
              </option>
            ))}
          </select>
        </label>
        {stretch !== undefined && <p class="timeline-reason">{reasonText(stretch)}</p>}
      </div>
      <Mount
        height={lanes.length * LANE_PX + 30}
        create={(root) => createLanes(root, options)}
        update={(chart) => chart.update(options)}
      />
    </Section>
  );
}

function allOf({ spans, stretches }: Timeline): readonly TimelineSpan[] {
  return [...spans, ...stretches.flatMap(({ gaps }) => gaps)].sort(
    (one, other) => one.from - other.from,
  );
}

/** What stood still and why, in words: the text beside the picture. */
export function reasonText({ reason, gaps }: Pick<SlowStretch, "reason" | "gaps">): string {
  const causes = [...groupBy(gaps, ({ lane, label }) => `${lane}\n${label}`).values()].map(
    (same) => {
      const seconds = same.reduce((sum, { from, to }) => sum + to - from, 0);
      return `${same[0]!.lane} ${seconds.toFixed(1)} s (${same[0]!.label})`;
    },
  );
  return causes.length === 0 ? `${reason}.` : `${reason}: ${causes.join(", ")}.`;
}

export interface LanesRequest {
  readonly spans: readonly TimelineSpan[];
  readonly stretches: readonly SlowStretch[];
  /** Along wall time. */
  readonly marks: readonly PlacedMark[];
  /** Unix seconds that are 0 on the axis. */
  readonly origin: number;
  readonly created: number | null;
}

export function lanesOf({
  spans,
  stretches,
  marks,
  origin,
  created,
}: LanesRequest): readonly Lane[] {
  const names = [...new Set(spans.map(({ label }) => label))];
  const ofSpans = [...groupBy(spans, ({ lane }) => lane)].map(
    ([name, same]): Lane => ({
      name,
      spans: placed(same, origin, ({ label }) => phaseSlot(label, names)),
    }),
  );
  const ofGaps = [
    ...groupBy(
      stretches.flatMap(({ gaps }) => gaps),
      ({ lane }) => lane,
    ),
  ].map(([name, same]): Lane => ({ name, spans: placed(same, origin, () => IDLE_SLOT) }));
  const ofTracks = [
    ...groupBy(
      stretches.flatMap(({ tracks }) => tracks),
      ({ name }) => name,
    ),
  ].map(
    ([name, same]): Lane => ({
      name: deviceName(name),
      spans: [],
      levels: same.map(
        ({ start, periodS, values }): Level => ({
          start: start - origin,
          period: periodS,
          values,
          max: 100,
          slot: LEVEL_SLOT,
          unit: "%",
        }),
      ),
    }),
  );
  const epochs = epochSpans(marks, { origin, created });
  return [
    ...(epochs.length === 0 ? [] : [{ name: "epochs", spans: epochs }]),
    ...ofSpans,
    ...ofTracks,
    ...ofGaps,
  ];
}

function placed(
  spans: readonly TimelineSpan[],
  origin: number,
  slot: (one: TimelineSpan) => number,
): readonly Span[] {
  return spans
    .map(
      (one): Span => ({
        from: one.from - origin,
        to: one.to - origin,
        label: one.step === null ? one.label : `${one.label} · after step ${one.step}`,
        slot: slot(one),
      }),
    )
    .sort((one, other) => one.from - other.from);
}

/** An epoch lasts from the one before it, or from a restart, to its own end. */
function epochSpans(
  marks: readonly PlacedMark[],
  { origin, created }: Pick<LanesRequest, "origin" | "created">,
): readonly Span[] {
  const found: Span[] = [];
  let from = created;
  for (const { kind, label, x } of marks) {
    if (kind === "restart") from = x;
    if (kind !== "epoch") continue;
    if (from !== null) found.push({ from: from - origin, to: x - origin, label, slot: EPOCH_SLOT });
    from = x;
  }
  return found;
}

function parseRange(text: string): Range | null {
  const [min, max] = text.split("..").map(Number);
  return text !== "" && min !== undefined && max !== undefined && min < max ? { min, max } : null;
}

export function timelineTable(spans: readonly TimelineSpan[]): string {
  const lines = ["lane,name,start,end,duration_ms,step"];
  for (const { lane, label, from, to, step } of spans) {
    lines.push(
      [
        csvField(lane),
        csvField(label),
        from,
        to,
        Math.round((to - from) * 1e6) / 1000,
        step ?? "",
      ].join(","),
    );
  }
  return `${lines.join("\r\n")}\r\n`;
}

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
  if (typeof name !== "string" || typeof start !== "number" || typeof duration !== "number")
    return null;
  const lane = rank > 0 ? `${name} · rank ${rank}` : name;
  return { lane, label: name, from: start, to: start + Math.max(0, duration) / 1000, step, rank };
}

export function stretchOf({ record, position, rank, step }: EntryRow): SlowStretch | null {
  const { start, period_s: period, samples, gaps, reason } = record ?? {};
  if (typeof start !== "number" || typeof period !== "number" || !(period > 0)) return null;
  const tracks = Object.entries(isObject(samples) ? samples : {}).flatMap(
    ([name, values]): Track[] =>
      Array.isArray(values)
        ? [
            {
              name,
              start,
              periodS: period,
              values: Float64Array.from(values, (value) =>
                typeof value === "number" ? value : NaN,
              ),
            },
          ]
        : [],
  );
  const longest = Math.max(0, ...tracks.map(({ values }) => values.length));
  const found = (Array.isArray(gaps) ? gaps : []).flatMap((gap: unknown) => gapOf(gap, rank) ?? []);
  const end = Math.max(start + longest * period, ...found.map(({ to }) => to));
  return {
    position,
    start,
    end,
    tracks,
    gaps: found,
    step,
    reason: typeof reason === "string" ? reason : "a slow stretch",
  };
}

function gapOf(gap: unknown, rank: number): TimelineSpan | null {
  if (!isObject(gap)) return null;
  const { device, start, end, cause } = gap;
  if (typeof start !== "number" || typeof end !== "number") return null;
  const where = typeof device === "string" ? deviceName(device) : "device";
  return {
    lane: `${where} idle`,
    label: typeof cause === "string" ? cause : "no cause known",
    from: start,
    to: end,
    step: null,
    rank,
  };
}

/** `gpu/0/util` and `gpu/0` as people say it. */
export function deviceName(name: string): string {
  const [, gpu] = /^gpu\/(\d+)/.exec(name) ?? [];
  return gpu === undefined ? (name === "cpu" ? "CPU" : name) : `GPU ${gpu}`;
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
