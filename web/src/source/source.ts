/**
 * Where the page's answers come from: the server it was loaded from (live.ts), or the file it was saved in (archive.ts).
 * Everything above asks through this and cannot tell which.
 */

import type { ReadonlySignal } from "@preact/signals";

import type { SeriesData } from "../chart/index.ts";
import type { SliceColumns, SmoothState } from "../chart/smooth.ts";
import type {
  AxisName,
  Board,
  BoardList,
  ChosenRuns,
  ControlRequest,
  EntryRow,
  GroupCurves,
  GroupTables,
  Importance,
  Labels,
  LabelsChanged,
  ManyLabelsChange,
  ProjectList,
  RunsRemoved,
  RunsRestored,
  TrashList,
  LabelsChange,
  LiveEvent,
  Missing,
  Points,
  ResetEvent,
  RunEndpoint,
  RunList,
  RunParams,
  RunResponses,
  RunRow,
  RunsEvent,
  SeriesHead,
  StoredBoard,
  Why,
} from "../wire.ts";

/** Which runs a list has, how they are ordered and grouped: what an archive goes by, because it cannot read queries. */
export interface RunChoice {
  readonly ids?: readonly string[];
  /** Null for all. */
  readonly projects?: readonly string[] | null;
  readonly withHidden?: boolean;
  /** As in a search box; null where the filter is a query. */
  readonly words?: string | null;
  /** Such as `-created` or `role:loss`. */
  readonly order?: string;
  /** Config keys. */
  readonly groupKeys?: readonly string[];
}

export interface RunsRequest {
  /** In the query language of the command line, such as `config.lr < 3e-4 and status == "running"`. */
  readonly query?: string;
  /** The same in parts, together with the order and the groups. */
  readonly choice?: RunChoice;
  /** Such as `-created` or `summary.loss.last`. */
  readonly order?: string;
  readonly offset?: number;
  readonly limit?: number;
  readonly withConfig?: boolean;
  /** Metric names, or `role:loss`, whose summary each row is to carry. */
  readonly summaries?: readonly string[];
  /** Fields to group by, with commas between. */
  readonly group?: string;
  /** With the number of all runs and the names of their projects. */
  readonly withProjects?: boolean;
}

/** Changes of many runs at once. */
export interface RunChanges {
  labels(change: ManyLabelsChange): Promise<LabelsChanged>;
  remove(chosen: ChosenRuns): Promise<RunsRemoved>;
  restore(keys: string[]): Promise<RunsRestored>;
  trash(): Promise<TrashList>;
}

/** The boards of all projects. `revision` is that of the board as it was read; null for a new one. */
export interface BoardSource {
  list(): Promise<BoardList>;
  /** Raises a `SourceError` with status 409 where another revision is stored. Null in a saved page. */
  readonly save:
    | ((project: string, board: Board, revision: string | null) => Promise<StoredBoard>)
    | null;
  readonly remove:
    | ((project: string, name: string, revision: string | null) => Promise<void>)
    | null;
}

/** Which runs a file has: some by id, else those of a query, else those of a board. With a board, the saved page opens on it. */
export interface ExportRequest {
  readonly run?: readonly string[];
  readonly query?: string;
  readonly board?: string;
  /** Of the board, where several projects have one of its name. */
  readonly project?: string;
}

export interface SeriesRequest {
  readonly runs: readonly string[];
  readonly names: readonly string[];
  /** A kind or a metric's name; null for the axis that a run defined for the metric, else steps. */
  readonly x: string | null;
  /** For names that exist on several axes. */
  readonly axis?: AxisName;
  /** Without it rank 0. */
  readonly ranks?: readonly number[] | "all";
  readonly lo?: number;
  readonly hi?: number;
  /** Longer series come as this many slices; 0 asks for every point. */
  readonly pixels: number;
  /** Whether slices are equally wide on a logarithmic x. */
  readonly isLog?: boolean;
  /** Such as `ema:0.9`: parts come with smoothed values. */
  readonly smooth?: string;
}

/** Smoothed values of a part. */
export interface Smoothed {
  /** What was asked for, such as `ema:0.9`. */
  readonly text: string;
  /** One per point, or one per slice at its last point. */
  readonly values: Float64Array;
  /** What continues a moving average after the last point of the series; null where a file has it. */
  readonly state: SmoothState | null;
}

/** Which runs numbers are about, by id, and what they are grouped by: keys, or all that differ but some. */
export interface SweepRuns {
  readonly run?: readonly string[];
  readonly query?: string;
  readonly by?: readonly string[];
  readonly all_but?: readonly string[];
  readonly unfinished?: boolean;
}

export interface CurvesRequest extends SweepRuns {
  readonly metric: string;
  readonly x?: string;
  readonly lo?: number;
  readonly hi?: number;
  readonly points?: number;
  readonly log?: boolean;
  readonly smooth?: string;
  readonly column?: readonly string[];
}

export interface TablesRequest extends SweepRuns {
  readonly metric: readonly string[];
  readonly value?: string;
}

export interface ImportanceRequest extends SweepRuns {
  readonly metric: string;
  readonly value?: string;
  readonly pair?: readonly string[];
}

export interface WhyRequest {
  /** Two runs, or one against its group. */
  readonly run: readonly string[];
  readonly metric?: string;
  readonly unfinished?: boolean;
}

export interface SweepSource {
  /** Null where charts draw groups from the series that they have. */
  readonly curves: ((request: CurvesRequest) => Promise<GroupCurves>) | null;
  groups(request: TablesRequest): Promise<GroupTables>;
  importance(request: ImportanceRequest): Promise<Importance>;
  /** Null where nothing can be asked about two runs. */
  readonly why: ((request: WhyRequest) => Promise<Why>) | null;
}

export interface SeriesPart {
  readonly head: SeriesHead;
  readonly data: SeriesData;
  /** When each raw point was logged, in Unix seconds; null for slices. */
  readonly times: Float64Array | null;
  /** Further columns by name; see `SeriesHead.columns`. */
  readonly columns?: SliceColumns;
  readonly smoothed?: Smoothed;
}

export interface SeriesAnswer {
  readonly parts: readonly SeriesPart[];
  readonly missing: readonly Missing[];
  /** How far each run had been read. */
  readonly positions: Readonly<Record<string, string>>;
}

/** What one run recorded between two positions. */
export interface RecordsUpdate {
  readonly type: "records";
  readonly run: string;
  /** Where the stream stood before; null when that is not known. */
  readonly from: string | null;
  readonly to: string;
  readonly points: readonly Points[];
  readonly entries: readonly EntryRow[];
  /** Whether there are new points of more series than a stream sends. */
  readonly partial: boolean;
  /** Whether it tells of every rank, or of the first alone. */
  readonly hasAllRanks: boolean;
}

export type Update =
  | RecordsUpdate
  /** The stream begins or goes on: the list may have changed meanwhile. */
  | { readonly type: "joined" }
  | { readonly type: "status"; readonly row: RunRow }
  | ({ readonly type: "live" } & LiveEvent)
  | ({ readonly type: "runs" } & RunsEvent)
  | ({ readonly type: "reset" } & ResetEvent);

export type Connection = "connecting" | "live" | "lost" | "archive";

export interface Subscription {
  /** The runs, and where to follow each of them from. */
  readonly positions: ReadonlyMap<string, string>;
  /** Every rank, or the first alone. */
  readonly hasAllRanks: boolean;
  /** What their machines are read to do, each second. */
  readonly hasReadings: boolean;
}

export interface UpdateFeed {
  /** Follow these; replaces what was wanted before. */
  subscribe(subscription: Subscription): void;
  close(): void;
}

/** The address of a blob that an archive left out. */
export const MISSING_BLOB = "data:,";

export interface Source {
  readonly connection: ReadonlySignal<Connection>;
  /** Whether `runs` chooses by a query; a saved page cannot. */
  readonly supportsQueries: boolean;
  runs(request: RunsRequest): Promise<RunList>;
  /** The response of an endpoint of one run; the endpoint table of the server declares them. */
  get<Endpoint extends RunEndpoint>(
    endpoint: Endpoint,
    run: string,
    params?: RunParams[Endpoint],
  ): Promise<RunResponses[Endpoint]>;
  series(request: SeriesRequest): Promise<SeriesAnswer>;
  /** Numbers of many runs at once. */
  readonly sweep: SweepSource;
  /** Address of a blob's bytes, for `src` and `href`. */
  blobUrl(run: string, file: string): string;
  /** How many samples of a run a saved file left out. */
  numLeftOut(run: string): number;
  /** A blob that is a text. */
  blobText(run: string, file: string): Promise<string>;
  /** Address of a frame that draws figures of Plotly; an error says why there is none. */
  plotlyUrl(): Promise<string>;
  /** Address of runs as one HTML file, with the boards of their projects; null where there is no server to make it. */
  exportUrl(request: ExportRequest): string | null;
  readonly boards: BoardSource;
  /** Null where labels cannot be changed. */
  readonly updateLabels: ((run: string, change: LabelsChange) => Promise<Labels>) | null;
  /** Null where runs cannot be changed. */
  readonly changes: RunChanges | null;
  /** Asks a training for something through a hub; null where there is no server. */
  readonly control:
    | ((run: string, action: ControlRequest["action"]) => Promise<ControlRequest>)
    | null;
  /** The projects with their counts. */
  projects(): Promise<ProjectList>;
  /** News of the list of runs and of the runs wanted, in order, none twice and none left out. */
  follow(listener: (update: Update) => void): UpdateFeed;
}

/** An answer that is an error, in the server's own sentence. */
export class SourceError extends Error {
  readonly status: number;

  constructor(sentence: string, status: number) {
    super(sentence);
    this.name = "SourceError";
    this.status = status;
  }
}
