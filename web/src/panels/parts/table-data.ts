/** Tables that a run keeps as files: what is in their cells, which rows are kept, and in which order. */

import { fewDigits } from "../../chart/index.ts";
import { compileFilter } from "../../ui/filter.ts";
import { csvField } from "../../ui/download.ts";

export interface TableData {
  readonly columns: readonly string[];
  readonly rows: readonly (readonly unknown[])[];
}

/** A cell that is a file of the run, such as a picture. */
export interface FileCell {
  readonly file: string;
  readonly media_type: string;
  readonly caption?: string;
}

export type ColumnKind = "number" | "short" | "long" | "picture" | "audio";

/** What the person at the page asked for; columns are named by their index. */
export interface TableView {
  /** Index of the column that rows are sorted by; null for the order of the file. */
  readonly sort: { readonly column: number; readonly isDown: boolean } | null;
  readonly search: string;
  readonly filters: Readonly<Record<number, string>>;
}

const LONG_TEXT = 40;
/** Kinds and widths are those of the first rows. */
const MEASURED = 200;
const NOT_FINITE: Readonly<Record<string, number>> = { nan: NaN, inf: Infinity, "-inf": -Infinity };
const BY_TEXT = new Intl.Collator("en", { numeric: true });

/** Null for what is no table. */
export function parseTable(text: string): TableData | null {
  let content: unknown;
  try {
    content = JSON.parse(text);
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    return null;
  }
  const { columns, data } = (content ?? {}) as { columns?: unknown; data?: unknown };
  if (!Array.isArray(columns) || !Array.isArray(data) || !data.every((row) => Array.isArray(row)))
    return null;
  return { columns: columns.map(String), rows: data as readonly (readonly unknown[])[] };
}

export function fileOf(value: unknown): FileCell | null {
  const { file, media_type: type } = (value ?? {}) as Partial<FileCell>;
  return typeof file === "string" && typeof type === "string" ? (value as FileCell) : null;
}

/** A number, also one that is not finite, which a file has as a text; null for anything else. */
export function numberOf(value: unknown): number | null {
  return typeof value === "number"
    ? value
    : typeof value === "string"
      ? (NOT_FINITE[value] ?? null)
      : null;
}

/** The whole of a cell as text. Messages of a chat are written under each other. */
export function cellText(value: unknown): string {
  if (value === null || value === undefined) return "";
  if (typeof value !== "object") return String(value);
  const file = fileOf(value);
  if (file !== null) return file.caption ?? file.file;
  if (Array.isArray(value) && value.length > 0 && value.every(isMessage))
    return value.map(({ role, content }) => `${role}: ${cellText(content)}`).join("\n\n");
  return JSON.stringify(value);
}

function isMessage(value: unknown): value is { readonly role: string; readonly content: unknown } {
  const { role, content } = (value ?? {}) as { role?: unknown; content?: unknown };
  return typeof role === "string" && content !== undefined;
}

/** What stands in a cell: numbers with at most six digits, integers with all of theirs. */
export function shownText(value: unknown): string {
  if (typeof value !== "number") return cellText(value);
  return Number.isInteger(value) && Math.abs(value) < 1e15 ? String(value) : fewDigits(value);
}

export function columnKind({ rows }: TableData, column: number): ColumnKind {
  const values = rows
    .slice(0, MEASURED)
    .map((row) => row[column])
    .filter((value) => value !== null && value !== undefined);
  const types = values.map((value) => fileOf(value)?.media_type ?? "");
  if (types.some((type) => type.startsWith("image/") || type.startsWith("video/")))
    return "picture";
  if (types.some((type) => type.startsWith("audio/"))) return "audio";
  if (values.length > 0 && values.every((value) => numberOf(value) !== null)) return "number";
  return values.some((value) => isLong(cellText(value))) ? "long" : "short";
}

export function isLong(text: string): boolean {
  return text.length > LONG_TEXT || text.includes("\n");
}

/** Pixels that a column needs at least. */
export function columnWidth(
  table: TableData,
  column: number,
  kind: ColumnKind,
  isNarrow: boolean,
): number {
  if (kind === "picture") return 104;
  if (kind === "audio") return 230;
  if (kind === "long") return 180;
  const longest = table.rows
    .slice(0, MEASURED)
    .reduce(
      (length, row) => Math.max(length, shownText(row[column]).length),
      table.columns[column]!.length + 3,
    );
  return Math.max(64, Math.min(isNarrow ? 140 : 260, longest * 7.4 + 22));
}

/** The texts of all rows for the search, made when they are first needed. */
export function searchTexts({ rows }: TableData): () => readonly string[] {
  let texts: readonly string[] | null = null;
  return () => (texts ??= rows.map((row) => row.map(cellText).join("\n")));
}

/** Indices of the rows that are kept, in order. */
export function chosenRows(
  { rows }: TableData,
  { sort, search, filters }: TableView,
  texts: () => readonly string[],
): readonly number[] {
  let kept = rows.map((_, index) => index);
  if (search.trim() !== "") {
    const [matches, all] = [compileFilter(search.trim()), texts()];
    kept = kept.filter((index) => matches(all[index]!));
  }
  for (const [column, text] of Object.entries(filters)) {
    if (text.trim() === "") continue;
    const matches = columnFilter(text);
    kept = kept.filter((index) => {
      const value = rows[index]![Number(column)];
      return matches(numberOf(value), cellText(value));
    });
  }
  if (sort === null) return kept;
  return kept.sort(
    (one, other) =>
      compareCells(rows[one]![sort.column], rows[other]![sort.column], sort.isDown) || one - other,
  );
}

/** Numbers come before texts; nan and empty cells come last in either direction. */
export function compareCells(one: unknown, other: unknown, isDown: boolean): number {
  const [rank, otherRank] = [rankOf(one), rankOf(other)];
  if (rank !== otherRank) return rank - otherRank;
  const order =
    rank === 0
      ? compareNumbers(numberOf(one)!, numberOf(other)!)
      : rank === 1
        ? BY_TEXT.compare(cellText(one), cellText(other))
        : 0;
  return isDown ? -order : order;
}

function rankOf(value: unknown): number {
  const number = numberOf(value);
  if (number !== null) return Number.isNaN(number) ? 2 : 0;
  return cellText(value) === "" ? 3 : 1;
}

/** A difference would be nan between two infinities. */
function compareNumbers(one: number, other: number): number {
  return one < other ? -1 : one > other ? 1 : 0;
}

/** The rows as CSV, with every digit; a file by its name. */
export function tableCsv({ columns, rows }: TableData, indices: readonly number[]): string {
  const exact = (value: unknown): string => csvField(fileOf(value)?.file ?? cellText(value));
  const lines = indices.map((index) =>
    columns.map((_, column) => exact(rows[index]![column])).join(","),
  );
  return [columns.map(csvField).join(","), ...lines, ""].join("\r\n");
}

/** The rows that the filter of a column keeps: `< 3e-4`, `0.1..0.5`, `= 12`, a text that occurs, `!text` that does not. */
function columnFilter(text: string): (value: number | string | null, shown: string) => boolean {
  const asked = text.trim();
  const [, operator, limit] = /^(<=|>=|!=|<|>|=)\s*(-?[\d.]+(?:e[-+]?\d+)?)$/i.exec(asked) ?? [];
  if (operator !== undefined)
    return (value) => typeof value === "number" && COMPARISONS[operator]!(value, Number(limit));
  const [, low, high] =
    /^(-?[\d.]+(?:e[-+]?\d+)?)\s*\.\.\s*(-?[\d.]+(?:e[-+]?\d+)?)$/i.exec(asked) ?? [];
  if (low !== undefined)
    return (value) => typeof value === "number" && value >= Number(low) && value <= Number(high);
  const words = asked.replace(/^!\s*/, "").toLowerCase();
  return (_, shown) => shown.toLowerCase().includes(words) !== asked.startsWith("!");
}

const COMPARISONS: Readonly<Record<string, (value: number, limit: number) => boolean>> = {
  "<": (value, limit) => value < limit,
  "<=": (value, limit) => value <= limit,
  ">": (value, limit) => value > limit,
  ">=": (value, limit) => value >= limit,
  "=": (value, limit) => value === limit,
  "!=": (value, limit) => value !== limit,
};
