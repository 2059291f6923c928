import { expect, test } from "vitest";

import { choiceField, namesField, parseHash, formatHash } from "../../src/state/url-hash.ts";
import { zoomField } from "../../src/state/view.ts";

test("an address can be read and says the same again", () => {
  const texts = new Map([
    ["metrics", "a&b=c#d <e>"],
    ["panel", "charts"],
    ["zoom", "step:1..2"],
  ]);
  const written = formatHash(texts);
  expect(written).toContain("panel=charts");
  expect(parseHash(`#${written}`)).toEqual(texts);
});

test("names may hold commas and percent signs", () => {
  const field = namesField("pin");
  const names = ["a,b", "50%", "%2C", "plain/name"];
  expect(field.parse(field.write(names))).toEqual(names);
  expect(field.parse("")).toEqual([]);
});

test("a word that is no choice means nothing", () => {
  const field = choiceField("x", ["step", "wall"], "step");
  expect(field.parse("wall")).toBe("wall");
  expect(field.parse("toString")).toBeNull();
});

test.each([
  "step:1..2",
  "wall:1794711551.3..1794711999",
  "relative:-5..1e3",
  "val/epoch:1..2.5",
  "a:b:1..2",
])("zoom %s", (text) => {
  const field = zoomField("zoom");
  const zoom = field.parse(text)!;
  expect(zoom.min).toBeLessThan(zoom.max);
  expect(field.parse(field.write(zoom))).toEqual(zoom);
});

test("a zoom is written to the resolution of its axis", () => {
  const { write } = zoomField("zoom");
  expect(write({ x: "step", min: 1234.567890123, max: 8765.4321 })).toBe("step:1235..8765");
  expect(write({ x: "relative", min: 0.123456789, max: 0.987654321 })).toBe(
    "relative:0.1235..0.9877",
  );
});

test.each(["", "step:2..1", "step:a..b", "1..2"])("%s is no zoom", (text) => {
  expect(zoomField("zoom").parse(text)).toBeNull();
});
