import { expect, test } from "vitest";

import { crowdLines } from "../../src/panels/parts/crowd-chart.tsx";
import type { GroupCurves } from "../../src/wire.ts";

test("hundreds of runs are one line with two bands, and each place says how many runs it is of", () => {
  const columns = { median: [2, 3], q25: [1, 2], q75: [3, 4], min: [0, null], max: [9, 10] };
  const found = { x: "step", curves: [{ label: "", members: 1200, at: [0, 10], n: [1200, 900], columns }] } as unknown as GroupCurves;
  const [line] = crowdLines(found);
  expect(line!.label).toBe("median of 1,200 runs");
  expect([...line!.spread!.low]).toEqual([1, 2]);
  expect([...line!.spread!.outer!.high]).toEqual([9, 10]);
  expect(line!.spread!.outer!.low[1]).toBeNaN();
  expect(line!.noteOf!(1)).toBe("900 of 1,200");
  expect(crowdLines(null)).toEqual([]);
});
