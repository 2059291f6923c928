import { expect, test } from "vitest";

import {
  classesOf,
  evenSteps,
  sampleOf,
  samplesByName,
} from "../../src/panels/parts/sample-record.ts";
import { placesOf } from "../../src/panels/parts/sample-view.tsx";
import { createArchiveSource } from "../../src/source/archive.ts";
import type { ArchiveBody, EntryList, EntryRow } from "../../src/wire.ts";
import { WIRE_VERSION } from "../../src/wire.ts";

const entry = (name: string, step: number | null, record: Record<string, unknown>): EntryRow => ({
  position: "",
  kind: "text" in record ? "text" : "blob",
  rank: 0,
  t: 0,
  step,
  name,
  record,
});

test("a record of text or a file is a sample, whatever else is wrong with it", () => {
  expect(sampleOf(entry("a", 1, { text: "# hi", format: "markdown" }))).toMatchObject({
    text: "# hi",
    isMarkdown: true,
    index: 0,
  });
  const odd = {
    file: "a.png",
    media_type: 7,
    bytes: "many",
    width: "x",
    height: 3,
    boxes: [null, { x0: 0, y0: 0, x1: "1", y1: 1 }],
    masks: "none",
    chart: null,
  };
  expect(sampleOf(entry("a", null, odd))).toMatchObject({
    text: null,
    mediaType: "",
    bytes: null,
    size: null,
    frames: 1,
    boxes: [],
    masks: [],
    chart: null,
  });
  expect(sampleOf(entry("a", 1, {}))).toBeNull();
});

test("a list that was logged under one name is in its order", () => {
  const found = samplesByName([
    entry("b", 2, { file: "2.png", index: 1 }),
    entry("a", 1, { text: "x" }),
    entry("b", 2, { file: "1.png", index: 0 }),
  ]);
  expect(found.get("b")!.map(({ file }) => file)).toEqual(["1.png", "2.png"]);
  expect(placesOf(["b", "a", "c"], [{ samples: found }])).toEqual([
    { name: "b", index: 0 },
    { name: "b", index: 1 },
    { name: "a", index: 0 },
  ]);
});

test("steps beside each other are spread evenly up to the chosen one", () => {
  const steps = Array.from({ length: 101 }, (_, index) => index);
  expect(evenSteps(steps, null, 6)).toEqual([0, 20, 40, 60, 80, 100]);
  expect(evenSteps(steps, 50, 6)).toEqual([0, 10, 20, 30, 40, 50]);
  expect(evenSteps([3, 9], 8, 6)).toEqual([3]);
});

test("a class has one colour in all groups, of boxes and of masks", () => {
  const boxes = [
    { group: "truth", label: "cat", x0: 0, y0: 0, x1: 1, y1: 1 },
    { group: "guess", label: "dog", score: 0.5, x0: 0, y0: 0, x1: 1, y1: 1 },
  ];
  const sample = sampleOf(
    entry("a", 1, {
      file: "a.png",
      boxes,
      masks: [{ group: "guess", file: "m.png", labels: { 1: "cat" } }],
    }),
  )!;
  const { groups, slots, hasScores } = classesOf([sample]);
  expect([...groups]).toEqual([
    ["guess", ["cat", "dog"]],
    ["truth", ["cat"]],
  ]);
  expect(new Set(slots.values()).size).toBe(2);
  expect(hasScores).toBe(true);
});

test("an archive chooses samples as the server does", async () => {
  const listed = (...entries: EntryRow[]): EntryList => ({
    entries,
    names: Object.fromEntries(entries.map(({ name }) => [name, 1])),
    total: entries.length,
    offset: 0,
  });
  const responses = {
    x: {
      texts: listed(entry("a", 1, { text: "one" }), entry("a", 5, { text: "two" })),
      blobs: listed(entry("b", 3, { file: "1.png" }), entry("b", 3, { file: "2.png" })),
    },
  };
  const source = createArchiveSource({
    wire: WIRE_VERSION,
    made: 0,
    runs: { rows: [] },
    axes: {},
    responses,
    blobs: {},
    series: [],
    sweep: {},
  } as unknown as ArchiveBody);
  const records = async (at?: number): Promise<unknown[]> =>
    (await source.get("samples", "x", at === undefined ? {} : { at })).entries.map(
      ({ record }) => Object.values(record!)[0],
    );
  expect(await records()).toEqual(["two", "1.png", "2.png"]);
  expect(await records(4)).toEqual(["one", "1.png", "2.png"]);
  expect(await records(0)).toEqual([]);
  expect((await source.get("samples", "x")).steps).toEqual([1, 3, 5]);
});
