/** Where an axis has its ticks, and what stands beside them. */

import {
  fixed,
  formatBytes,
  formatDuration,
  formatWallClock,
  formatWhole,
  twoDigits,
} from "./format.ts";
import type { Range, ScaleKind } from "./scale.ts";

/** What a value on an axis means; decides the round numbers and the text. */
export type AxisFormat =
  | "number"
  | "step"
  | "epoch"
  | "tokens"
  | "bytes"
  | "percent"
  | "wall"
  | "relative"
  | "duration"
  | "progress";

export interface Ticks {
  readonly at: readonly number[];
  readonly labels: readonly string[];
}

/** What stands at the end of an axis of that format; empty where the format does not tell. */
export function axisName(format: AxisFormat): string {
  return (
    (
      {
        step: "Step",
        epoch: "Epoch",
        tokens: "Tokens",
        wall: "Time",
        relative: "Elapsed time",
        progress: "Progress",
      } as Readonly<Record<string, string>>
    )[format] ?? ""
  );
}

const DECIMAL_STEPS = [1, 2, 5, 10];
const BINARY_STEPS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];
const SECOND_STEPS = [
  0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900,
  1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 432000, 864000,
];
const MAX_TICKS = 200;
const SLACK = 0.75;

/** Choose about `count` ticks inside a range. */
export function ticks(kind: ScaleKind, range: Range, count: number, format: AxisFormat): Ticks {
  if (kind === "log") {
    const at = logTicks(range, count);
    // Within a decade neighbours are closer than their own size.
    const gap = (index: number): number => Math.abs(at[index]! - (at[index - 1] ?? at[1] ?? 0));
    return {
      at,
      labels: at.map((value, index) => tickLabel(value, Math.min(value, gap(index)), format)),
    };
  }
  const step = tickStep((range.max - range.min) / Math.max(1, count), format);
  const at = multiples(range, step, format === "wall" ? localOffsetS(range.min) : 0);
  return { at, labels: at.map((value) => tickLabel(value, step, format)) };
}

/** Return the round step nearest above `rough`, or a little below it, that suits the format. */
export function tickStep(rough: number, format: AxisFormat): number {
  if (!(rough > 0) || !Number.isFinite(rough)) return 1;
  if (format === "wall" || format === "relative" || format === "duration") {
    const step = SECOND_STEPS.find((candidate) => candidate >= rough * SLACK);
    if (step !== undefined) return step;
    return 86400 * tickStep(rough / 86400, "number");
  }
  if (format === "bytes" && rough >= 1) {
    const unit = 1024 ** Math.floor(Math.log2(rough) / 10);
    return unit * (BINARY_STEPS.find((candidate) => candidate * unit >= rough * SLACK) ?? 1024);
  }
  const power = 10 ** Math.floor(Math.log10(rough));
  const step =
    power * (DECIMAL_STEPS.find((candidate) => candidate * power >= rough * SLACK) ?? 10);
  return format === "step" || format === "tokens" ? Math.max(1, step) : step;
}

/** Powers of ten, thinned when there are many, filled with 2 and 5 when there are few. */
export function logTicks({ min, max }: Range, count: number): number[] {
  if (!(min > 0) || !(max > min)) return [];
  const low = Math.floor(Math.log10(min));
  const high = Math.ceil(Math.log10(max));
  const stride = Math.max(1, Math.round((high - low) / Math.max(1, count)));
  const factors = (high - low) * 3 <= count * 2 ? [1, 2, 5] : [1];
  const found: number[] = [];
  for (let exponent = low; exponent <= high; exponent += stride) {
    for (const factor of factors) {
      const value = Number(`${factor}e${exponent}`);
      if (value >= min && value <= max) found.push(value);
    }
  }
  // Within about a decade round numbers at equal distances say more.
  if (found.length >= 4 || (found.length >= 2 && max / min > 12)) return found;
  const step = tickStep((max - min) / Math.max(2, count), "number");
  return multiples({ min, max }, step, 0).filter((value) => value > 0);
}

/** Write a tick so that neighbours `step` apart differ. */
export function tickLabel(value: number, step: number, format: AxisFormat): string {
  switch (format) {
    case "bytes":
      return formatBytes(value).replace(".0 ", " ");
    case "percent":
      return `${plain(value * 100, step * 100)}\u00a0%`;
    case "progress":
      return `${plain(value, step)}\u00a0%`;
    case "duration":
    case "relative":
      return relativeLabel(value, step);
    case "wall":
      return wallLabel(value, step);
    default:
      return plain(value, step);
  }
}

/** Write a position on the x axis in full, for tooltips and tables. */
export function positionLabel(value: number, format: AxisFormat): string {
  switch (format) {
    case "wall":
      return formatWallClock(value);
    case "relative":
    case "duration":
      return value < 0 ? `−${formatDuration(-value)}` : formatDuration(value);
    case "step":
    case "tokens":
      return `${format} ${formatWhole(value)}`;
    case "epoch":
      return `epoch ${formatWhole(value)}`;
    case "progress":
      return `${formatWhole(Math.round(value * 100) / 100)}\u00a0%`;
    default:
      return formatWhole(value);
  }
}

function plain(value: number, step: number): string {
  if (value === 0) return "0";
  const size = Math.max(Math.abs(value), step);
  if (size >= 1e15 || size < 1e-4)
    return value.toExponential(digitsBetween(Math.abs(value), step)).replace(/(\.?0+)?e\+?/, "e");
  if (size >= 1e4) {
    const power = Math.min(4, Math.floor(Math.log10(size) / 3));
    const unit = 1000 ** power;
    return `${plainDecimals(value / unit, step / unit)}${["", "k", "M", "B", "T"][power]}`;
  }
  return plainDecimals(value, step);
}

function plainDecimals(value: number, step: number): string {
  const decimals = Math.max(0, Math.min(12, -Math.floor(Math.log10(step) + 1e-9)));
  return trimZeros(fixed(value, decimals));
}

function trimZeros(text: string): string {
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

function digitsBetween(size: number, step: number): number {
  return Math.max(
    0,
    Math.min(6, Math.floor(Math.log10(size)) - Math.floor(Math.log10(step) + 1e-9)),
  );
}

function relativeLabel(seconds: number, step: number): string {
  const sign = seconds < 0 ? "−" : "";
  const size = Math.abs(seconds);
  if (size === 0) return "0";
  if (step < 1)
    return size < 1
      ? `${sign}${plain(size * 1000, step * 1000)}ms`
      : `${sign}${plainDecimals(size, step)}s`;
  const days = Math.floor(size / 86400);
  const hours = Math.floor((size % 86400) / 3600);
  const minutes = Math.floor((size % 3600) / 60);
  const rest = Math.round(size % 60);
  const parts = [
    days ? `${days}d` : "",
    hours ? `${hours}h` : "",
    minutes ? `${minutes}m` : "",
    rest ? `${rest}s` : "",
  ];
  return (
    sign +
    parts
      .filter((part) => part !== "")
      .slice(0, 2)
      .join(" ")
  );
}

function wallLabel(unixS: number, step: number): string {
  const at = new Date(unixS * 1000);
  const isMidnight = at.getHours() === 0 && at.getMinutes() === 0 && at.getSeconds() === 0;
  if (step >= 86400 || isMidnight)
    return `${twoDigits(at.getMonth() + 1)}-${twoDigits(at.getDate())}`;
  const clock = `${twoDigits(at.getHours())}:${twoDigits(at.getMinutes())}`;
  if (step >= 60) return clock;
  const seconds = `${clock}:${twoDigits(at.getSeconds())}`;
  return step >= 1 ? seconds : `${seconds}.${String(at.getMilliseconds()).padStart(3, "0")}`;
}

function localOffsetS(unixS: number): number {
  return new Date(unixS * 1000).getTimezoneOffset() * 60;
}

function multiples({ min, max }: Range, step: number, offset: number): number[] {
  const first = Math.ceil((min - offset) / step - 1e-9);
  const last = Math.min(Math.floor((max - offset) / step + 1e-9), first + MAX_TICKS);
  const found: number[] = [];
  // A product of whole numbers and the step keeps 0.30000000000000004 off the axis.
  for (let index = first; index <= last; index++)
    found.push(Number((index * step + offset).toPrecision(12)));
  return found;
}
