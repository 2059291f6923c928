import { expect, test } from "vitest";

import { serverField } from "../../src/panels/compare-columns.ts";
import { shortNumber } from "../../src/state/config.ts";
import { groupKeysOf, groupTitle, valuesTitle, varyingKeys } from "../../src/state/group-keys.ts";
import { undoOf } from "../../src/state/selection.ts";
import { completed, completionsOf } from "../../src/ui/completion.ts";
import { isQuery, wordsQuery } from "../../src/ui/filter.ts";
import type { RunRow } from "../../src/wire.ts";

const row = (config: Record<string, unknown>): RunRow => ({ config }) as unknown as RunRow;

test("numbers of a config keep six significant digits and no rows of zeros", () => {
  expect([3e-5, 0.0001, 0.001, 0.0123456789, 12, 1e21, -0.00025].map(shortNumber)).toEqual([
    "3e-5",
    "0.0001",
    "0.001",
    "0.0123457",
    "12",
    "1e+21",
    "-0.00025",
  ]);
});

test("runs are grouped by several keys, or by everything that differs but some", () => {
  const rows = [
    row({ lr: 1e-5, model: { name: "a" }, seed: 0, size: 1 }),
    row({ lr: 1e-5, model: { name: "b" }, seed: 1, size: 1 }),
  ];
  expect(varyingKeys(rows)).toEqual(["model.name", "seed"]);
  expect(groupKeysOf("-seed", rows)).toEqual(["model.name"]);
  expect(groupKeysOf("lr,model.name", rows)).toEqual(["lr", "model.name"]);
  expect(groupTitle(rows[0]!, ["lr", "model.name"])).toBe("lr=1e-5, name=a");
  expect(groupTitle(rows[0]!, ["lr"])).toBe("1e-5");
  expect(valuesTitle(["lr", "model.name"], [1e-5, null])).toBe("lr=1e-5, name=not set");
});

test("a key that some runs lack differs", () => {
  expect(varyingKeys([row({ a: 1 }), row({ a: 1, b: 2 })])).toEqual(["b"]);
});

test("fields are completed at the caret, those that begin with the word first", () => {
  const fields = ["step", "config.lr", "config.optimizer.lr", "summary.loss.last"];
  expect(completionsOf("config.l", 8, fields)).toEqual(["config.lr"]);
  expect(completionsOf("step > 3 and lr", 15, fields)).toEqual([
    "config.lr",
    "config.optimizer.lr",
  ]);
  expect(completionsOf("step > 30", 9, fields)).toEqual([]);
  expect(completed("lr < 1", 2, "config.lr")).toEqual({ text: "config.lr < 1", caret: 10 });
});

test("words become a query in which every sign stands for itself", () => {
  expect(wordsQuery("  lr3e-4  a.b ")).toBe('text ~ "(?i)lr3e-4" and text ~ "(?i)a\\\\x2eb"');
  expect(wordsQuery("")).toBe("");
});

test("a filter is a query where it compares something or names a field", () => {
  const queries = [
    "config.lr < 3e-4",
    'name ~ "^a"',
    "lr = 3",
    '"keep" in tags',
    'id in ["a"]',
    "config.l",
    "not config.fast",
    "step>3",
    "not hidden",
  ];
  const words = [
    "",
    "lr=0.001-bs32",
    "bert in domain",
    "gpt 2",
    "hidden layers",
    "loss*seed1",
    "config",
  ];
  expect([queries.filter((text) => !isQuery(text)), words.filter(isQuery)]).toEqual([[], []]);
});

test("a table of thousands of runs is sorted by the server", () => {
  expect(serverField("config:optimizer.my lr", "last")).toBe('config.optimizer."my lr"');
  expect(serverField("metric:role:loss", "best")).toBe("best.loss");
  expect(serverField("metric:eval/loss", "mean")).toBe("summary.eval/loss.mean");
  expect([
    serverField("fact:status", "last"),
    serverField("fact:duration", "last"),
    serverField("name", "last"),
  ]).toEqual(["status", "duration", "name"]);
});

test("an undo gives each run back what it had, and nothing else", () => {
  const changed = [
    { id: "a", labels: { name: null, tags: ["old", "both"], notes: null, hidden: false } },
  ];
  expect(
    undoOf({ changed, refused: [] }, { add_tags: ["new", "both"], remove_tags: ["old", "gone"] }),
  ).toEqual({ a: { remove_tags: ["new"], add_tags: ["old"] } });
  expect(undoOf({ changed, refused: [] }, { hidden: true })).toEqual({
    a: { hidden: false, remove_tags: [], add_tags: [] },
  });
  expect(undoOf({ changed, refused: [] }, { notes: "x" })).toEqual({
    a: { notes: null, notes_before: "x", remove_tags: [], add_tags: [] },
  });
});
