/** Values of a configuration, by dotted keys. */

import { fewDigits } from "../chart/index.ts";

type Config = Readonly<Record<string, unknown>>;

/** The value under `optimizer.lr`, whether the configuration is nested or has that very key; undefined for none. */
export function configValue(config: Config | null, key: string): unknown {
  if (config === null) return undefined;
  if (Object.hasOwn(config, key)) return config[key];
  const dot = key.indexOf(".");
  const inner = dot < 0 ? undefined : config[key.slice(0, dot)];
  return isConfig(inner) ? configValue(inner, key.slice(dot + 1)) : undefined;
}

/** The same as a text to show; a run without the key says so. */
export function configText(config: Config | null, key: string): string {
  const value = configValue(config, key);
  return value === undefined ? "not set" : valueText(value);
}

export function valueText(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** The same with at most six significant digits: `3e-5`, `0.0003`, `0.0123457`, `12`. */
export function shortText(value: unknown): string {
  return typeof value === "number" ? shortNumber(value) : valueText(value);
}

export function shortNumber(value: number): string {
  return Number.isInteger(value) || !Number.isFinite(value) ? String(value) : fewDigits(value);
}

/** Every dotted key with its value; lists are values. */
export function flatConfig(config: Config, prefix = ""): [key: string, value: unknown][] {
  return Object.entries(config).flatMap(([key, value]) =>
    isConfig(value)
      ? flatConfig(value, `${prefix}${key}.`)
      : [[`${prefix}${key}`, value] as [string, unknown]],
  );
}

function isConfig(value: unknown): value is Config {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
