/** What a line chart can be told. */

import type { Range, ScaleKind } from "../scale.ts";
import type { Trace } from "../series.ts";
import type { SyncBus } from "../sync.ts";
import type { AxisFormat } from "../ticks.ts";

/** A horizontal line that the values should stay below or above, such as the memory of a device. */
export interface Limit {
  readonly y: number;
  readonly label: string;
}

export type MarkKind =
  | "finding"
  | "epoch"
  | "restart"
  | "checkpoint"
  | "throttle"
  | "note"
  | "dropout";

/** A vertical line at something that happened. */
export interface Mark {
  readonly x: number;
  readonly kind: MarkKind;
  readonly label: string;
  readonly severity?: "info" | "warning" | "critical";
  /** A cross on a line of this palette slot, instead of a line from top to bottom. */
  readonly on?: { readonly y: number; readonly slot: number };
}

/** A part of the x axis with a name, drawn as a strip along the bottom. */
export interface Stretch extends Range {
  readonly label: string;
  readonly tone: "quiet" | "good" | "info" | "warning" | "critical";
}

/** Whether the y range has all values, leaves the outermost out, or whole lines that would flatten the others. */
export type Outliers = "show" | "clip" | "auto";

export interface YLimits {
  readonly min: number | null;
  readonly max: number | null;
}

export const NO_LIMITS: YLimits = { min: null, max: null };

export interface LineOptions {
  /** Shown in downloads and told to screen readers; the page draws its own heading. */
  readonly title: string;
  readonly xFormat: AxisFormat;
  readonly yFormat: AxisFormat;
  /** What stands at the end of the x axis, and beside the y axis of a downloaded picture. */
  readonly xName: string;
  readonly yName: string;
  readonly xKind: ScaleKind;
  readonly yKind: ScaleKind;
  readonly outliers: Outliers;
  /** Ends of the y axis that were set by hand; null for one that follows the data. */
  readonly yLimits: YLimits;
  /** Values the y axis shows in any case, such as 0 and 1 for shares. */
  readonly yAlways: readonly number[];
  readonly limits: readonly Limit[];
  /** Ascending. */
  readonly marks: readonly Mark[];
  readonly stretches: readonly Stretch[];
  /** Which values are best: the tooltip begins with them. */
  readonly goal: "min" | "max" | null;
  /** Id of the series the tooltip compares the others with. */
  readonly baseline: string | null;
  /** Owner of the series that are drawn in front of the others, and stronger. */
  readonly chosen: string | null;
  /** Whether the legend names every line, what the lines are of, or nothing; a single entry needs no legend. */
  readonly legend: "lines" | "subjects" | null;
  /** What stands in a chart without a point. */
  readonly emptyText: string;
  readonly sync: SyncBus | null;
  /** The user chose a range of x; the caller may bring finer data. */
  readonly onZoom?: (range: Range) => void;
  /** The user went back to the whole. */
  readonly onReset?: () => void;
  /** The user wants to see what was clipped. */
  readonly onShowAll?: () => void;
  /** The user chose series in the legend; an empty set means all. */
  readonly onSolo?: (ids: ReadonlySet<string>) => void;
}

export const LINE_DEFAULTS: LineOptions = {
  title: "",
  xFormat: "step",
  yFormat: "number",
  xName: "",
  yName: "",
  xKind: "linear",
  yKind: "linear",
  outliers: "show",
  yLimits: NO_LIMITS,
  yAlways: [],
  limits: [],
  marks: [],
  stretches: [],
  goal: null,
  baseline: null,
  chosen: null,
  legend: "lines",
  emptyText: "no data yet",
  sync: null,
};

/** Ids, owners or subjects of the series that stand out; all others are dimmed. */
export interface Emphasis {
  readonly solo: ReadonlySet<string>;
  readonly hovered: string | null;
}

export const NO_EMPHASIS: Emphasis = { solo: new Set(), hovered: null };

export function isDimmed(
  { id, owner, subject }: Pick<Trace, "id" | "owner" | "subject">,
  { solo, hovered }: Emphasis,
): boolean {
  const isSolo = [id, owner, subject].some((name) => solo.has(name));
  if (hovered !== null) return ![id, owner, subject].includes(hovered) && !isSolo;
  return solo.size > 0 && !isSolo;
}
