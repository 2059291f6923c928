/** Answers from the server that the page was loaded from. Every address is relative, so that a proxy may serve it under any path. */

import type { EntryList, Labels, LabelsChange, MarkList, Problem, RunDetail, RunList } from "../wire.ts";
import { decodeSeries } from "./decode.ts";
import { createLiveFeed } from "./feed.ts";
import { SourceError } from "./source.ts";
import type { EntriesRequest, RunsRequest, SeriesRequest, Source } from "./source.ts";

type Value = string | number | boolean | undefined;

export function createLiveSource(): Source {
  const feed = createLiveFeed();
  return {
    connection: feed.connection,
    answersQueries: true,
    runs: async (request) => (await json(`api/runs?${runsQuery(request)}`)) as RunList,
    run: async (id) => (await json(`api/runs/${encodeURIComponent(id)}`)) as RunDetail,
    series: async (request) => decodeSeries(await (await ask(`api/series?${seriesQuery(request)}`)).arrayBuffer()),
    entries: async (kind, run, request = {}) => (await json(`api/runs/${encodeURIComponent(run)}/${kind}?${entriesQuery(request)}`)) as EntryList,
    marks: async (run) => (await json(`api/runs/${encodeURIComponent(run)}/marks`)) as MarkList,
    blobAddress: (run, file) => `api/runs/${encodeURIComponent(run)}/blob/${encodeURIComponent(file)}`,
    exportAddress: (run, format) => `api/runs/${encodeURIComponent(run)}/export?format=${encodeURIComponent(format)}`,
    relabel: async (run, change: LabelsChange) => (await json(`api/runs/${encodeURIComponent(run)}/labels`, {
      method: "PATCH",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(change),
    })) as Labels,
    follow: feed.follow,
  };
}

function runsQuery({ query, order, offset, limit, withConfig, summaries = [] }: RunsRequest): URLSearchParams {
  return parameters({ query, order, offset, limit, config: withConfig }, { summary: summaries });
}

export function seriesQuery({ runs, names, x, axis, ranks, lo, hi, pixels }: SeriesRequest): URLSearchParams {
  const rank = ranks === "all" ? ["all"] : (ranks ?? []).map(String);
  return parameters({ x, axis, lo, hi, pixels }, { name: names, run: runs, rank });
}

function entriesQuery({ name, offset, limit, isSpread, rank, kinds = [] }: EntriesRequest): URLSearchParams {
  return parameters({ name, offset, limit, spread: isSpread, rank }, { kind: kinds });
}

function parameters(single: Readonly<Record<string, Value>>, several: Readonly<Record<string, readonly string[]>>): URLSearchParams {
  const all = new URLSearchParams();
  for (const [name, value] of Object.entries(single)) {
    if (value !== undefined) all.set(name, typeof value === "boolean" ? String(Number(value)) : String(value));
  }
  for (const [name, values] of Object.entries(several)) for (const value of values) all.append(name, value);
  return all;
}

async function json(address: string, init?: RequestInit): Promise<unknown> {
  return (await ask(address, init)).json();
}

async function ask(address: string, init?: RequestInit): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(address, init);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    throw new SourceError("The server does not answer.", 0);
  }
  if (!response.ok) throw new SourceError(await sentenceOf(response), response.status);
  return response;
}

async function sentenceOf(response: Response): Promise<string> {
  const text = await response.text();
  try {
    return (JSON.parse(text) as Problem).error;
  } catch (error) {
    // A proxy's own page, perhaps.
    if (!(error instanceof SyntaxError)) throw error;
    return `The server answered ${response.status} ${response.statusText}.`;
  }
}
