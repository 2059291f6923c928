import { expect, test } from "vitest";

import type { SeriesQueryOptions } from "../../src/state/series-cache.ts";
import { batchRequests } from "../../src/state/batch-requests.ts";

function query(
  run: string,
  name: string,
  more: Partial<SeriesQueryOptions> = {},
): { request: SeriesQueryOptions } {
  return { request: { run, name, x: "step", range: null, pixels: 600, ...more } };
}

test("names of the same runs are asked for together", () => {
  const queries = ["a", "b"].flatMap((run) =>
    ["loss", "acc", "lr"].map((name) => query(run, name)),
  );
  const requests = batchRequests(queries);
  expect(requests.map(({ request }) => request)).toEqual([
    { runs: ["a", "b"], names: ["loss", "acc", "lr"], x: "step", pixels: 600 },
  ]);
  expect(requests[0]!.members).toHaveLength(6);
});

test("nothing is asked for that nobody wants", () => {
  const requests = batchRequests([query("a", "loss"), query("b", "loss"), query("a", "acc")]);
  const asked = requests.flatMap(({ request: { runs, names } }) =>
    runs.flatMap((run) => names.map((name) => `${run} ${name}`)),
  );
  expect(asked.sort()).toEqual(["a acc", "a loss", "b loss"]);
});

test("ranges, axes and ranks keep apart", () => {
  const requests = batchRequests([
    query("a", "loss"),
    query("a", "loss", { range: { min: 1, max: 2 } }),
    query("a", "loss", { axis: "epoch", ranks: "all" }),
  ]);
  expect(requests.map(({ request }) => request)).toMatchObject([
    {},
    { lo: 1, hi: 2 },
    { axis: "epoch", ranks: "all" },
  ]);
});

test("many names come in pieces", () => {
  const names = Array.from({ length: 50 }, (_, index) => `m${index}`);
  const sizes = batchRequests(names.map((name) => query("a", name))).map(
    ({ request }) => request.names.length,
  );
  expect(sizes).toEqual([16, 16, 16, 2]);
});
