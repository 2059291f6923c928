import { expect, test } from "vitest";

import { shortcutsOf } from "../../src/app/shortcuts.ts";
import type { ShortcutHost } from "../../src/app/shortcuts.ts";
import { sectionsOfRun } from "../../src/panels/sections.ts";

/** The first of the values that come more than once. */
function repeated<Value>(values: readonly Value[]): Value | undefined {
  return values.find((value, index) => values.indexOf(value) !== index);
}

test("every file that exports a section is a section of the run", () => {
  const files = import.meta.glob("../../src/panels/*.tsx", {
    query: "?raw",
    import: "default",
    eager: true,
  }) as Record<string, string>;
  const declared = Object.values(files).filter((text) => /^export const section\b/m.test(text));
  expect(sectionsOfRun().length).toBe(declared.length);
});

test("sections have ids, titles and places of their own", () => {
  expect(repeated(sectionsOfRun().map(({ id }) => id))).toBeUndefined();
  expect(repeated(sectionsOfRun().map(({ title }) => title))).toBeUndefined();
  expect(repeated(sectionsOfRun().map(({ order }) => order))).toBeUndefined();
});

test("no two shortcuts of places, sections and page have the same key", () => {
  const host = { page: { view: {}, runs: {} } } as unknown as ShortcutHost;
  expect(repeated(shortcutsOf(host).map(({ key }) => key))).toBeUndefined();
});
