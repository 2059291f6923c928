/** The product's one format of numbers, durations, bytes and counts; the recording side writes the same texts. */

export const UNKNOWN = "—";

const LONGEST_S = 1e12;
const SMALLEST_FIXED = 1e-3;
const FIVE_DECIMALS_BELOW = 1e-2;
const FOUR_DECIMALS_BELOW = 100;
const TWO_DECIMALS_BELOW = 1e8;
const BYTE_UNITS = ["B", "KiB", "MiB", "GiB", "TiB"] as const;
const COUNT_UNITS = ["", "k", "M", "B", "T"] as const;

/** Write a metric's value briefly, with at least three digits: `0`, `1.23e-04`, `0.00123`, `0.0010`, `0.1234`, `123.46`, `1.576e+13`. */
export function formatNumber(value: number): string {
  if (Number.isNaN(value)) return "nan";
  if (!Number.isFinite(value)) return value > 0 ? "inf" : "-inf";
  if (value === 0) return "0";
  const [small, large] = [exponential(value, 2), exponential(value, 3)];
  if (Math.abs(Number(small)) < SMALLEST_FIXED) return small;
  const fiveDecimals = fixed(value, 5);
  if (Math.abs(Number(fiveDecimals)) < FIVE_DECIMALS_BELOW) return fiveDecimals.replace(/0$/, "");
  if (Math.abs(Number(large)) >= TWO_DECIMALS_BELOW) return large;
  const fourDecimals = fixed(value, 4);
  return Math.abs(Number(fourDecimals)) < FOUR_DECIMALS_BELOW ? fourDecimals : fixed(value, 2);
}

/** Write a duration as `49ms`, `1.5s`, `4m 32s`, `3h 12m` or `34d 05h`, rounded down. */
export function formatDuration(seconds: number): string {
  if (!(seconds >= 0 && seconds < LONGEST_S)) return UNKNOWN;
  const microseconds = Number(fixed(seconds * 1e6, 0));
  const wholeS = Math.floor(microseconds / 1e6);
  const rest = microseconds - wholeS * 1e6;
  if (wholeS < 1) return `${Math.floor(rest / 1000)}ms`;
  if (wholeS < 60) {
    const tenth = Math.floor(rest / 100_000);
    return tenth ? `${wholeS}.${tenth}s` : `${wholeS}s`;
  }
  const minutes = Math.floor(wholeS / 60);
  if (minutes < 60) return `${minutes}m ${twoDigits(wholeS % 60)}s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return `${hours}h ${twoDigits(minutes % 60)}m`;
  return `${Math.floor(hours / 24)}d ${twoDigits(hours % 24)}h`;
}

/** Write a size in units of 1024: `512 B`, `1.5 KiB`, `2.1 GiB`. */
export function formatBytes(sizeBytes: number): string {
  if (!Number.isFinite(sizeBytes)) return UNKNOWN;
  const [number, unit] = scaled(sizeBytes, 1024, BYTE_UNITS);
  return `${number} ${unit}`;
}

/** Write a count in thousands: `950`, `125.3k`, `1.2M`, `3.4B`, `5.6T`. */
export function formatCount(count: number): string {
  if (!Number.isFinite(count)) return UNKNOWN;
  return scaled(count, 1000, COUNT_UNITS).join("");
}

/** Write a share as a percentage: `0.42` gives `42.0 %`. */
export function formatPercent(share: number): string {
  return Number.isFinite(share) ? `${fixed(share * 100, 1)}\u00a0%` : UNKNOWN;
}

/** Write how far a value lies from a baseline, signed: `+12.3 %`; a baseline of zero has no percentage. */
export function formatDelta(value: number, baseline: number): string {
  if (!Number.isFinite(value) || !Number.isFinite(baseline) || baseline === 0) return UNKNOWN;
  const percent = ((value - baseline) / Math.abs(baseline)) * 100;
  // Beyond that a percentage is only a long number.
  if (Math.abs(percent) >= 1000 && value / baseline > 0)
    return `×${formatCount(Math.round(value / baseline))}`;
  const text =
    Math.abs(percent) < 10 ? fixed(percent, 2) : fixed(percent, Math.abs(percent) < 1000 ? 1 : 0);
  if (Number(text) === 0) return "±0\u00a0%";
  return `${percent > 0 ? "+" : "−"}${text.replace("-", "")}\u00a0%`;
}

/** Write a whole number with thin groups of three: `12 345 678`. */
export function formatWhole(value: number): string {
  if (!Number.isFinite(value)) return UNKNOWN;
  const [whole = "", decimals] = String(Math.round(value * 1e4) / 1e4).split(".");
  if (whole.includes("e")) return exponential(value, 2);
  const groupBy = whole.replace(/\B(?=(\d{3})+$)/g, ",");
  return decimals === undefined ? groupBy : `${groupBy}.${decimals}`;
}

/** Write how many there are of something: `1 run`, `1,201 runs`. */
export function formatNumberOf(count: number, noun: string): string {
  return `${formatWhole(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/** Write Unix seconds as local date and time: `2026-11-15 02:29:23`. */
export function formatWallClock(unixS: number): string {
  if (!Number.isFinite(unixS) || Math.abs(unixS) > 8.64e12) return UNKNOWN;
  const at = new Date(unixS * 1000);
  const date = `${at.getFullYear()}-${twoDigits(at.getMonth() + 1)}-${twoDigits(at.getDate())}`;
  return `${date} ${twoDigits(at.getHours())}:${twoDigits(at.getMinutes())}:${twoDigits(at.getSeconds())}`;
}

export function twoDigits(value: number): string {
  return String(value).padStart(2, "0");
}

/** `toFixed` that rounds exact halves to even, as the recording side does. */
export function fixed(value: number, decimals: number): string {
  const text = value.toFixed(decimals);
  const doubled = Math.abs(value) * 10 ** decimals * 2;
  if (doubled % 2 !== 1 || !isTie(Math.abs(value).toFixed(100), decimals)) return text;
  const lower = Math.abs(value)
    .toFixed(100)
    .slice(0, decimals === 0 ? -101 : decimals - 100);
  return lower.endsWith("1") || /[3579]$/.test(lower) ? text : `${value < 0 ? "-" : ""}${lower}`;
}

function exponential(value: number, decimals: number): string {
  const exact = Math.abs(value).toExponential(100);
  const [digits = "", exponent = ""] = (
    isTie(exact.split("e")[0] ?? "", decimals)
      ? evenTie(exact, decimals)
      : Math.abs(value).toExponential(decimals)
  ).split("e");
  const power = Number(exponent);
  const sign = value < 0 ? "-" : "";
  return `${sign}${digits}e${power < 0 ? "-" : "+"}${twoDigits(Math.abs(power))}`;
}

function evenTie(exact: string, decimals: number): string {
  const [digits = "", exponent = ""] = exact.split("e");
  const lower = `${digits.slice(0, 2 + decimals)}e${exponent}`;
  const isEven = /[02468]$/.test(digits.slice(0, 2 + decimals));
  return isEven ? lower : Number(exact).toExponential(decimals);
}

function isTie(exactDigits: string, decimals: number): boolean {
  const fraction = exactDigits.split(".")[1] ?? "";
  return /^50*$/.test(fraction.slice(decimals));
}

function scaled(amount: number, base: number, units: readonly string[]): [string, string] {
  // A value that rounds up to the base belongs to the next unit: 1023.96 KiB is 1.0 MiB.
  let text = fixed(amount, 0);
  for (const unit of units.slice(0, -1)) {
    if (Math.abs(Number(text)) < base) return [text, unit];
    amount /= base;
    text = fixed(amount, 1);
  }
  return [text, units.at(-1) ?? ""];
}
