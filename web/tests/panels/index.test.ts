import { expect, test } from "vitest";

import { shortcutsOf } from "../../src/app/shortcuts.ts";
import type { ShortcutHost } from "../../src/app/shortcuts.ts";
import { PANELS } from "../../src/panels/index.ts";

/** The first of the values that come more than once. */
function repeated<Value>(values: readonly Value[]): Value | undefined {
  return values.find((value, index) => values.indexOf(value) !== index);
}

test("every file that exports a panel is a tab of the page", () => {
  const files = import.meta.glob("../../src/panels/*.tsx", { query: "?raw", import: "default", eager: true }) as Record<string, string>;
  const declared = Object.values(files).filter((text) => /^export const panel\b/m.test(text));
  expect(PANELS.length).toBe(declared.length);
});

test("panels have ids, titles and places of their own", () => {
  expect(repeated(PANELS.map(({ id }) => id))).toBeUndefined();
  expect(repeated(PANELS.map(({ title }) => title))).toBeUndefined();
  expect(repeated(PANELS.map(({ order }) => order))).toBeUndefined();
});

test("no two shortcuts of panels and page have the same key", () => {
  const host = { page: { view: {}, runs: {} } } as unknown as ShortcutHost;
  expect(repeated(shortcutsOf(host).map(({ key }) => key))).toBeUndefined();
});
