/** What runs are grouped by: one config key, several (`lr,wd`), or everything that differs but some (`-seed`). */

import { configValue, flatConfig, shortText } from "./config.ts";
import type { RunRow } from "../wire.ts";

/** The keys that a choice means; those that differ between the runs where it excludes some. */
export function groupKeysOf(choice: string | null, rows: readonly RunRow[]): readonly string[] {
  if (choice === null || choice === "") return [];
  if (!choice.startsWith("-")) return choice.split(",");
  const excluded = new Set(choice.slice(1).split(","));
  return varyingKeys(rows).filter((key) => !excluded.has(key));
}

/** Config keys whose values differ between runs, in the order in which they first occur. */
export function varyingKeys(rows: readonly RunRow[]): readonly string[] {
  const first = new Map<string, string>();
  const varying = new Set<string>();
  const counts = new Map<string, number>();
  for (const { config } of rows) {
    for (const [key, value] of flatConfig(config ?? {})) {
      const text = JSON.stringify(value);
      counts.set(key, (counts.get(key) ?? 0) + 1);
      if (!first.has(key)) first.set(key, text);
      else if (first.get(key) !== text) varying.add(key);
    }
  }
  return [...first.keys()].filter((key) => varying.has(key) || counts.get(key) !== rows.length);
}

/** The title of a run's group. */
export function groupTitle(row: RunRow, keys: readonly string[]): string {
  return valuesTitle(
    keys,
    keys.map((key) => configValue(row.config, key)),
  );
}

/** The title of a group: the value of the only key, else `lr=0.001, wd=0.1`. */
export function valuesTitle(keys: readonly string[], values: readonly unknown[]): string {
  const texts = values.map((value) => (value == null ? "not set" : shortText(value)));
  return keys.length === 1
    ? texts[0]!
    : keys.map((key, index) => `${key.slice(key.lastIndexOf(".") + 1)}=${texts[index]}`).join(", ");
}

/** What a choice is called: `lr`, `lr, wd` or `all but seed`. */
export function groupName(choice: string): string {
  return choice.startsWith("-")
    ? `all but ${choice.slice(1).replaceAll(",", ", ")}`
    : choice.replaceAll(",", ", ");
}

/** Runs by the values of keys; numbers ascend, and runs without a key come last. */
export function byKeys(keys: readonly string[]): (one: RunRow, other: RunRow) => number {
  return (one, other) => {
    for (const key of keys) {
      const [a, b] = [configValue(one.config, key), configValue(other.config, key)];
      if (a === undefined || b === undefined) {
        if (a !== b) return Number(a === undefined) - Number(b === undefined);
        continue;
      }
      const sign =
        typeof a === "number" && typeof b === "number"
          ? a - b
          : TEXTS.compare(JSON.stringify(a), JSON.stringify(b));
      if (sign !== 0) return sign;
    }
    return 0;
  };
}

const TEXTS = new Intl.Collator("en", { numeric: true });
