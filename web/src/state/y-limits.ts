/** Ends of y axes that were set by hand, as the address keeps them: `loss:0..4`, `loss:..4`, `loss:0..`. */

import { NO_LIMITS } from "../chart/index.ts";
import type { YLimits } from "../chart/index.ts";

export function limitsOf(all: readonly string[], name: string): YLimits {
  const found = all.find((one) => one.startsWith(`${name}:`) && !one.slice(name.length + 1).includes(":"));
  const [, min, max] = /:([^:]*)\.\.([^:]*)$/.exec(found ?? "") ?? [];
  return found === undefined ? NO_LIMITS : { min: endOf(min), max: endOf(max) };
}

/** The list with other limits of one metric; without both ends it has none. */
export function withLimits(all: readonly string[], name: string, { min, max }: YLimits): readonly string[] {
  const others = all.filter((one) => one.slice(0, one.lastIndexOf(":")) !== name);
  return min === null && max === null ? others : [...others, `${name}:${min ?? ""}..${max ?? ""}`];
}

/** A number that somebody typed; null for nothing or no number. */
export function endOf(text: string | undefined): number | null {
  const value = text === undefined || text.trim() === "" ? NaN : Number(text.trim().replace(/^\+/, ""));
  return Number.isFinite(value) ? value : null;
}
