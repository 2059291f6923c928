/** Combines queries that are due at the same time into few requests: many names of the same runs in one, but each formula by itself, because one may fail. */

import type { SeriesRequest } from "../source/source.ts";
import type { SeriesQueryOptions } from "./series-cache.ts";
import { isFormula } from "./chart-spec.ts";
import { groupBy } from "./group-by.ts";

/** Small enough that the first charts need not wait for the last. */
const MAX_NAMES = 16;
const MAX_SERIES = 400;

export interface BatchedRequest<Member> {
  readonly request: SeriesRequest;
  readonly members: readonly Member[];
}

export function batchRequests<Member extends { readonly request: SeriesQueryOptions }>(
  members: readonly Member[],
): readonly BatchedRequest<Member>[] {
  const alike = groupBy(members, ({ request: { run: _run, name, ...shared } }) =>
    JSON.stringify([isFormula(name) ? name : null, shared]),
  );
  return [...alike.values()].flatMap((group) => {
    const byName = groupBy(group, ({ request }) => request.name);
    const sameRuns = groupBy([...byName.values()], (ofName) =>
      JSON.stringify(ofName.map(({ request }) => request.run).sort()),
    );
    return [...sameRuns.values()].flatMap(inPieces).map((names) => batched(names.flat()));
  });
}

function inPieces<Member>(
  ofNames: readonly (readonly Member[])[],
): readonly (readonly Member[])[][] {
  const numRuns = ofNames[0]?.length ?? 1;
  const size = Math.max(1, Math.min(MAX_NAMES, Math.floor(MAX_SERIES / numRuns)));
  const pieces: (readonly Member[])[][] = [];
  for (let start = 0; start < ofNames.length; start += size)
    pieces.push(ofNames.slice(start, start + size));
  return pieces;
}

function batched<Member extends { readonly request: SeriesQueryOptions }>(
  members: readonly Member[],
): BatchedRequest<Member> {
  const { run: _run, name: _name, range, ...shared } = members[0]!.request;
  return {
    members,
    request: {
      ...shared,
      runs: [...new Set(members.map(({ request }) => request.run))],
      names: [...new Set(members.map(({ request }) => request.name))],
      ...(range === null ? {} : { lo: range.min, hi: range.max }),
    },
  };
}
