/** Samples as their records have them: what was logged together under one name, boxes and masks, their classes. */

import { assignSlots } from "../../chart/index.ts";
import { groupBy } from "../../state/group-by.ts";
import type { EntryRow } from "../../wire.ts";

/** In shares of the picture. */
export interface Box {
  readonly group: string;
  readonly label: string;
  readonly score: number | null;
  readonly x0: number;
  readonly y0: number;
  readonly x1: number;
  readonly y1: number;
}

/** A grey picture whose pixels are numbers of classes. */
export interface Mask {
  readonly group: string;
  readonly file: string;
  readonly labels: Readonly<Record<string, string>>;
}

export interface Sample {
  readonly name: string;
  readonly step: number | null;
  readonly t: number | null;
  /** The place in a list that was logged under one name. */
  readonly index: number;
  /** Null for a file. */
  readonly text: string | null;
  readonly isMarkdown: boolean;
  readonly file: string;
  readonly mediaType: string;
  readonly bytes: number | null;
  readonly caption: string;
  readonly size: { readonly width: number; readonly height: number } | null;
  readonly frames: number;
  readonly boxes: readonly Box[];
  readonly masks: readonly Mask[];
  readonly chart: Readonly<Record<string, unknown>> | null;
}

/** The samples of a run, at one step or at several. */
export interface Column {
  readonly key: string;
  readonly run: string;
  /** Null where columns are runs. */
  readonly step: number | null;
  /** By name. */
  readonly samples: ReadonlyMap<string, readonly Sample[]>;
  /** Names whose samples did not fit into an archive. */
  readonly leftOut: readonly string[];
}

/** Null for a record that has neither a text nor a file. */
export function sampleOf({ record, name, step, t }: EntryRow): Sample | null {
  const {
    text,
    format,
    file,
    media_type: type,
    bytes,
    caption,
    index,
    width,
    height,
    frames,
    boxes,
    masks,
    chart,
  } = record ?? {};
  if (typeof text !== "string" && typeof file !== "string") return null;
  return {
    name: name ?? "",
    step,
    t,
    index: numberOf(index) ?? 0,
    text: typeof text === "string" ? text : null,
    isMarkdown: format === "markdown",
    file: textOf(file),
    mediaType: textOf(type),
    bytes: numberOf(bytes),
    caption: textOf(caption),
    size:
      Number(width) > 0 && Number(height) > 0
        ? { width: Number(width), height: Number(height) }
        : null,
    frames: numberOf(frames) ?? 1,
    boxes: objectsOf(boxes).flatMap(boxOf),
    masks: objectsOf(masks).flatMap((mask) =>
      typeof mask.file === "string"
        ? [{ group: textOf(mask.group), file: mask.file, labels: namesOf(mask.labels) }]
        : [],
    ),
    chart: chart !== null && typeof chart === "object" ? (chart as Record<string, unknown>) : null,
  };
}

function boxOf({ group, label, score, x0, y0, x1, y1 }: Record<string, unknown>): Box[] {
  const sides = [x0, y0, x1, y1].map(numberOf);
  if (sides.includes(null)) return [];
  const [left, top, right, bottom] = sides as [number, number, number, number];
  return [
    {
      group: textOf(group),
      label: textOf(label),
      score: numberOf(score),
      x0: left,
      y0: top,
      x1: right,
      y1: bottom,
    },
  ];
}

function namesOf(labels: unknown): Record<string, string> {
  return labels === null || typeof labels !== "object"
    ? {}
    : Object.fromEntries(Object.entries(labels).map(([id, label]) => [id, String(label)]));
}

function objectsOf(list: unknown): Record<string, unknown>[] {
  return Array.isArray(list)
    ? list.filter((one): one is Record<string, unknown> => one !== null && typeof one === "object")
    : [];
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function numberOf(value: unknown): number | null {
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}

/** The samples of each name, those of a list in its order. */
export function samplesByName(
  entries: readonly EntryRow[],
): ReadonlyMap<string, readonly Sample[]> {
  const samples = entries.flatMap((entry) => sampleOf(entry) ?? []);
  return groupBy(
    samples.sort((one, other) => one.index - other.index),
    ({ name }) => name,
  );
}

/** At most so many of the steps up to one, evenly, the last of them included. */
export function evenSteps(
  steps: readonly number[],
  upTo: number | null,
  most: number,
): readonly number[] {
  const past = upTo === null ? steps : steps.filter((step) => step <= upTo);
  if (past.length <= most) return past;
  return Array.from(
    { length: most },
    (_, index) => past[Math.round((index / (most - 1)) * (past.length - 1))]!,
  );
}

export interface Classes {
  /** The labels of each group. */
  readonly groups: ReadonlyMap<string, readonly string[]>;
  /** The colour of each label, the same in all groups. */
  readonly slots: ReadonlyMap<string, number>;
  readonly hasScores: boolean;
}

/** What boxes and masks of some samples are of. */
export function classesOf(samples: Iterable<Sample>): Classes {
  const groups = new Map<string, Set<string>>();
  const labelsOf = (group: string): Set<string> =>
    groups.get(group) ?? groups.set(group, new Set()).get(group)!;
  let hasScores = false;
  for (const { boxes, masks } of samples) {
    // Those of a mask are in the order of their numbers.
    for (const { group, labels } of masks)
      for (const label of Object.values(labels)) labelsOf(group).add(label);
    for (const { group, label, score } of boxes) {
      labelsOf(group).add(label);
      hasScores ||= score !== null;
    }
  }
  const sorted = new Map([...groups].sort().map(([group, labels]) => [group, [...labels]]));
  return {
    groups: sorted,
    slots: assignSlots([...new Set([...sorted.values()].flat())].sort()),
    hasScores,
  };
}
