/** Responses of the server that the page was loaded from. Every URL is relative, so that a proxy may serve the page under any path. */

import type { SmoothState } from "../chart/smooth.ts";
import { PATHS } from "../wire.ts";
import type {
  BoardList,
  ControlRequest,
  GroupCurves,
  GroupTables,
  Importance,
  Labels,
  LabelsChange,
  LabelsChanged,
  Problem,
  ProjectList,
  RunEndpoint,
  RunList,
  RunResponses,
  RunsRemoved,
  RunsRestored,
  StoredBoard,
  TrashList,
  Why,
} from "../wire.ts";
import { decodeSeries } from "./decode.ts";
import { createSharedStream } from "./shared-stream.ts";
import { SourceError } from "./source.ts";
import type { RunsRequest, SeriesAnswer, SeriesPart, SeriesRequest, Source } from "./source.ts";

type Value = string | number | boolean | undefined | readonly (string | number)[];

export function createLiveSource(): Source {
  const feed = createSharedStream();
  return {
    connection: feed.connection,
    supportsQueries: true,
    runs: async (request) => (await json(`${PATHS.runs}?${runsQuery(request)}`)) as RunList,
    get: async (endpoint, run, params) => {
      if (endpoint === "findings") await whenQuiet();
      return (await json(
        `${pathOf(endpoint, run)}?${queryOf({ ...params })}`,
      )) as RunResponses[typeof endpoint];
    },
    series: async (request) =>
      withSmoothed(
        decodeSeries(await (await ask(`${PATHS.series}?${seriesQuery(request)}`)).arrayBuffer()),
        request.smooth,
      ),
    sweep: {
      curves: async (request) =>
        (await json(`${PATHS.group_curves}?${queryOf({ ...request })}`)) as GroupCurves,
      groups: async (request) =>
        (await json(`${PATHS.groups}?${queryOf({ ...request })}`)) as GroupTables,
      importance: async (request) =>
        (await json(`${PATHS.importance}?${queryOf({ ...request })}`)) as Importance,
      why: async (request) => (await json(`${PATHS.why}?${queryOf({ ...request })}`)) as Why,
    },
    blobUrl: (run, file) => pathOf("blob", run).replace("{file}", encodeURIComponent(file)),
    blobText: async (run, file) =>
      (await ask(pathOf("blob", run).replace("{file}", encodeURIComponent(file)))).text(),
    numLeftOut: () => 0,
    plotlyUrl: async () => {
      await (await ask(PATHS.plotly)).body?.cancel();
      return PATHS.plotly;
    },
    exportUrl: (request) => `${PATHS.export}?${queryOf({ ...request })}`,
    boards: {
      list: async () => (await json(PATHS.boards)) as BoardList,
      save: async (project, board, revision) =>
        (await json(
          PATHS.save_board,
          sending("POST", { project, board, revision }),
        )) as StoredBoard,
      remove: async (project, name, revision) =>
        void (await json(PATHS.remove_board, sending("POST", { project, name, revision }))),
    },
    updateLabels: async (run, change: LabelsChange) =>
      (await json(pathOf("labels", run), sending("PATCH", change))) as Labels,
    changes: {
      labels: async (change) =>
        (await json(PATHS.many_labels, sending("PATCH", change))) as LabelsChanged,
      remove: async (chosen) => (await json(PATHS.remove, sending("POST", chosen))) as RunsRemoved,
      restore: async (keys) =>
        (await json(PATHS.restore, sending("POST", { keys }))) as RunsRestored,
      trash: async () => (await json(PATHS.trash)) as TrashList,
    },
    control: async (run, action) =>
      (await json(pathOf("request_control", run), sending("POST", { action }))) as ControlRequest,
    projects: async () => (await json(PATHS.projects)) as ProjectList,
    follow: feed.follow,
  };
}

function sending(method: "PATCH" | "POST", body: object): RequestInit {
  return { method, headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
}

function pathOf(
  endpoint: RunEndpoint | "blob" | "labels" | "request_control",
  run: string,
): string {
  const path =
    endpoint in PATHS ? PATHS[endpoint as keyof typeof PATHS] : `api/runs/{run}/${endpoint}`;
  return path.replace("{run}", encodeURIComponent(run));
}

function runsQuery({
  query,
  order,
  offset,
  limit,
  withConfig,
  summaries,
  group,
  withProjects,
}: RunsRequest): URLSearchParams {
  return queryOf({
    query,
    order,
    group,
    offset,
    limit,
    config: withConfig,
    summary: summaries,
    projects: withProjects,
  });
}

/** The server puts the smoothed column first. */
function withSmoothed(answer: SeriesAnswer, text: string | undefined): SeriesAnswer {
  if (text === undefined) return answer;
  const parts = answer.parts.map((part): SeriesPart => {
    const values = part.columns?.[part.head.columns?.[0] ?? ""];
    const state = part.head.smooth_state ?? null;
    return values === undefined
      ? part
      : { ...part, smoothed: { text, values, state: state as SmoothState | null } };
  });
  return { ...answer, parts };
}

export function seriesQuery({
  runs,
  names,
  x,
  axis,
  ranks,
  lo,
  hi,
  pixels,
  isLog,
  smooth,
}: SeriesRequest): URLSearchParams {
  return queryOf({
    x: x ?? undefined,
    axis,
    lo,
    hi,
    pixels,
    log: isLog === true ? true : undefined,
    smooth,
    name: names,
    run: runs,
    rank: ranks,
  });
}

function queryOf(params: Readonly<Record<string, Value>>): URLSearchParams {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value === undefined) continue;
    for (const one of Array.isArray(value) ? (value as readonly (string | number)[]) : [value]) {
      query.append(name, typeof one === "boolean" ? String(Number(one)) : String(one));
    }
  }
  return query;
}

async function json(address: string, init?: RequestInit): Promise<unknown> {
  return (await ask(address, init)).json();
}

const QUIET_MS = 100;
/** A server that has read nothing yet takes seconds for the charts of a sweep; rules beside them take as much again. */
const MOST_QUIET_MS = 10_000;
let numUnderWay = 0;
let lastEnd = 0;

/** When no answer has been awaited for a moment: where nobody has judged a run yet, the server runs every rule over it, and rows and lines would wait for that. */
async function whenQuiet(): Promise<void> {
  for (const start = performance.now(); performance.now() - start < MOST_QUIET_MS; ) {
    await new Promise((resolve) => setTimeout(resolve, QUIET_MS / 2));
    if (numUnderWay === 0 && performance.now() - lastEnd >= QUIET_MS) return;
  }
}

async function ask(address: string, init?: RequestInit): Promise<Response> {
  let response: Response;
  numUnderWay++;
  try {
    response = await fetch(address, init);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    throw new SourceError("The server does not respond.", 0);
  } finally {
    numUnderWay--;
    lastEnd = performance.now();
  }
  if (!response.ok) throw new SourceError(await sentenceOf(response), response.status);
  return response;
}

async function sentenceOf(response: Response): Promise<string> {
  const text = await response.text();
  try {
    const { error } = JSON.parse(text) as Problem;
    return error.charAt(0).toUpperCase() + error.slice(1);
  } catch (error) {
    // A proxy's own page, perhaps.
    if (!(error instanceof SyntaxError)) throw error;
    return `The server responded ${response.status} ${response.statusText}.`;
  }
}
