/** What the person at the page has chosen: signals, each kept in the address. */

import { batch, effect, signal } from "@preact/signals";
import type { Signal } from "@preact/signals";

import type { Range, SpreadKind } from "../chart/index.ts";
import type { XKind } from "../wire.ts";
import { store, stored } from "./storage.ts";
import {
  choiceField,
  flagField,
  namesField,
  optionalField,
  optionalNamesField,
  parseHash,
  textField,
  formatHash,
} from "./url-hash.ts";
import type { Field } from "./url-hash.ts";

export const X_KINDS: readonly XKind[] = [
  "step",
  "epoch",
  "tokens",
  "wall",
  "relative",
  "progress",
];

/** A range of x, and what x counts there, a kind or a metric: charts along something else are not zoomed. */
export interface Zoom extends Range {
  readonly x: string;
}

export function isXKind(x: string): x is XKind {
  return (X_KINDS as readonly string[]).includes(x);
}

/** Left to the chart, always clipped, never clipped: `clip=1` and `clip=0` in the address. */
export type OutlierChoice = "auto" | "1" | "0";
/** `line` draws no band. */
export type SpreadChoice = "none" | "line" | SpreadKind;
export type Centre = "mean" | "median";
export const CHART_SIZES = ["s", "m", "l"] as const;
export type ChartSize = (typeof CHART_SIZES)[number];

export const PLACE_IDS = ["run", "board", "compare", "projects"] as const;
export type PlaceId = (typeof PLACE_IDS)[number];

interface Kept {
  readonly field: Field<unknown>;
  readonly signal: Signal<unknown>;
}

/** How somebody likes to see charts and lists: kept by the browser, for addresses that name none of these. */
const SETTINGS: ReadonlySet<string> = new Set([
  "x",
  "smooth",
  "log-x",
  "log-y-all",
  "clip",
  "chart-size",
  "order",
  "spread",
  "centre",
]);
/** A change that comes later after a key or a click was not made by the person. */
const PERSON_MS = 1500;
/** Changes of the same things by the same kind of input that follow each other this quickly, as of a slider, are one step of the browser's history; changes of a board are one each. */
const SAME_STEP_MS = 1000;
/** Browsers allow few changes of the address a second. */
const WRITE_MS = 100;
const INPUTS = ["pointerdown", "pointerup", "keydown", "input", "wheel"] as const;

export type View = ReturnType<typeof createView>;

export function createView(
  location: Location = window.location,
  history: History = window.history,
) {
  const kept = new Map<string, Kept>();
  const numKept = signal(0);
  let given = parseHash(location.hash);
  const named = new Set(given.keys());
  if (![...given.keys()].some((key) => SETTINGS.has(key)))
    given = new Map([...parseHash(stored("settings") ?? ""), ...given]);
  const keep = <Value>(field: Field<Value>): Signal<Value> => {
    const known = kept.get(field.key);
    if (known !== undefined) return known.signal as Signal<Value>;
    const made = signal(read(field, given));
    kept.set(field.key, { field: field as Field<unknown>, signal: made as Signal<unknown> });
    // Panels make theirs while they are drawn, when no signal may change.
    queueMicrotask(() => (numKept.value = kept.size));
    return made;
  };
  const view = {
    place: keep(choiceField<PlaceId>("place", PLACE_IDS, "run")),
    /** The section of the run that is open and scrolled to; empty for the overview. */
    section: keep(textField("at")),
    /** A saved board, as `project/name` or its name; null for all metrics. */
    board: keep(optionalField("board")),
    /** A board with changes that were not saved, as JSON; empty for none. */
    draft: keep(textField("draft")),
    project: keep(optionalField("project")),
    /** The run that panels of one run show; null lets the page choose. */
    focus: keep(optionalField("run")),
    /** Runs in the charts; null lets the page choose the newest. */
    shown: keep(optionalNamesField("runs")),
    /** Whether the charts show all runs of the list, as far as they can draw them, whatever `shown` names. */
    isAll: keep(flagField("all")),
    /** The runs that are left out while all are shown. */
    without: keep(namesField("without")),
    baseline: keep(optionalField("baseline")),
    /** Words that all must occur in a run, or a query. */
    filter: keep(textField("filter")),
    /** A configuration key by which runs are grouped, such as `optimizer.lr`. */
    groupBy: keep(optionalField("group")),
    /** `created`, `name` or a metric's name; a minus in front turns it around. */
    order: keep(textField("order", "-created")),
    x: keep(choiceField("x", X_KINDS, "step")),
    /** From 0, none, to just below 1. */
    smoothness: keep(smoothnessField("smooth")),
    /** Which metrics have charts. */
    metrics: keep(textField("metrics")),
    zoom: keep(zoomField("zoom")),
    isLogX: keep(flagField("log-x")),
    /** Metrics whose y axis is logarithmic. */
    logY: keep(namesField("log-y")),
    /** What charts of several runs do with values far from all others. */
    outliers: keep(choiceField<OutlierChoice>("clip", ["auto", "1", "0"], "auto")),
    /** Whether the y axes of all charts are logarithmic; `logY` then names those that are not. */
    isLogY: keep(flagField("log-y-all")),
    chartSize: keep(choiceField<ChartSize>("chart-size", CHART_SIZES, "m")),
    /** The config key by which runs are coloured. */
    colorBy: keep(optionalField("color-by")),
    /** Colours that were chosen for runs, such as `4k2x:3d68ca`. */
    colors: keep(namesField("colors")),
    /** Groups of charts that are not as they are by default: open or closed. */
    folded: keep(namesField("fold")),
    /** The metric whose chart fills the window. */
    full: keep(optionalField("full")),
    /** How the members of a group are drawn: each by itself, or their mean with this spread. */
    spread: keep(
      choiceField<SpreadChoice>(
        "spread",
        ["none", "line", "std", "stderr", "ci", "minmax", "iqr"],
        "std",
      ),
    ),
    /** What a group's line is. */
    centre: keep(choiceField<Centre>("centre", ["mean", "median"], "mean")),
    /** Whether runs that have not finished count in groups, pictures and rankings. */
    withUnfinished: keep(flagField("unfinished")),
    /** A panel's own choice, kept in the address under `key`; the same signal for the same key. */
    text: (key: string, initial = ""): Signal<string> => keep(textField(key, initial)),
    /** The keys that the address had when the page was opened. */
    named,
    /** What changes next belongs to the step of the history before. */
    continueStep(): void {
      step = { ...step, input };
    },
    /** The address that leads back to this view. */
    address(): string {
      const all = texts();
      // An address that names a setting brings all of them: the reader's own ones do not apply.
      if (![...all.keys()].some((key) => SETTINGS.has(key))) all.set("x", view.x.peek());
      return `#${formatHash(all)}`;
    },
  };

  const texts = (): Map<string, string> => {
    const all = new Map<string, string>();
    for (const {
      field,
      signal: { value },
    } of kept.values()) {
      const text = field.write(value);
      if (value !== field.initial && text !== field.write(field.initial)) all.set(field.key, text);
      else if (value !== null && field.initial === null) all.set(field.key, text);
    }
    // A panel that has not been opened yet keeps its choices.
    for (const [key, text] of given) if (!kept.has(key)) all.set(key, text);
    return all;
  };
  let input = { at: -Infinity, type: "" };
  let writtenAt = -Infinity;
  let step = { keys: "", input, changedAt: -Infinity };
  let draft = view.draft.peek();
  let writing: ReturnType<typeof setTimeout> | undefined;
  for (const type of INPUTS)
    window.addEventListener(type, () => (input = { at: performance.now(), type }), {
      capture: true,
      passive: true,
    });
  /** Put the view into the address: as a new step of the history where a person changed something else than just before. */
  const write = (): void => {
    writing = undefined;
    const [next, before, now] = [texts(), parseHash(location.hash), performance.now()];
    const written = formatHash(next);
    if (written === formatHash(before)) return;
    const changed = [...new Set([...next.keys(), ...before.keys()])].filter(
      (key) => next.get(key) !== before.get(key),
    );
    const keys = changed.join();
    // What changes without another key or click belongs to the step before.
    const isSame =
      input === step.input ||
      (keys === step.keys &&
        keys !== "draft" &&
        input.type === step.input.type &&
        now - step.changedAt < SAME_STEP_MS);
    const isByPerson = now - input.at < PERSON_MS;
    const isStep = isByPerson && !isSame;
    writtenAt = now;
    step = isStep ? { keys, input, changedAt: now } : { ...step, changedAt: now };
    history[isStep ? "pushState" : "replaceState"](null, "", written === "" ? "#" : `#${written}`);
    if (isByPerson) keepSettings(changed, next);
  };
  effect(() => {
    void numKept.value;
    texts();
    // Each change of a board is a step of its own, however quickly the next one follows.
    const wait = view.draft.value === draft ? writtenAt + WRITE_MS - performance.now() : 0;
    draft = view.draft.value;
    if (wait > 0) {
      writing ??= setTimeout(write, wait);
      return;
    }
    clearTimeout(writing);
    write();
  });
  const reread = (): void => {
    clearTimeout(writing);
    writing = undefined;
    step = { ...step, keys: "" };
    given = parseHash(location.hash);
    batch(() => {
      for (const { field, signal: one } of kept.values()) one.value = read(field, given);
    });
  };
  window.addEventListener("popstate", reread);
  window.addEventListener("hashchange", reread);
  return view;
}

function keepSettings(changed: readonly string[], texts: ReadonlyMap<string, string>): void {
  const keys = changed.filter((key) => SETTINGS.has(key));
  if (keys.length === 0) return;
  const settings = new Map(parseHash(stored("settings") ?? ""));
  for (const key of keys) {
    if (texts.has(key)) settings.set(key, texts.get(key)!);
    else settings.delete(key);
  }
  store("settings", formatHash(settings));
}

function read<Value>(field: Field<Value>, given: ReadonlyMap<string, string>): Value {
  const text = given.get(field.key);
  return text === undefined ? field.initial : (field.parse(text) ?? field.initial);
}

function smoothnessField(key: string): Field<number> {
  const parse = (text: string): number | null => {
    const value = Number(text);
    return value >= 0 && value < 1 ? value : null;
  };
  return { key, initial: 0, parse, write: String };
}

/** Written as `step:1000..2500`, to a thousandth of the range and in whole steps. */
export function zoomField(key: string): Field<Zoom | null> {
  const parse = (text: string): Zoom | null => {
    const [, x, from, to] = /^(.+):([^:]+)\.\.(.+)$/.exec(text) ?? [];
    const [min, max] = [Number(from), Number(to)];
    return x !== undefined && min < max ? { x, min, max } : null;
  };
  const write = ({ x, min, max }: Zoom): string => {
    const digits =
      ["step", "tokens"].includes(x) && max - min > 10
        ? 0
        : Math.max(0, Math.min(20, 3 - Math.floor(Math.log10(max - min))));
    return `${x}:${Number(min.toFixed(digits))}..${Number(max.toFixed(digits))}`;
  };
  return { key, initial: null, parse, write: (zoom) => (zoom === null ? "" : write(zoom)) };
}
