/** A table that a run keeps as a file: columns and rows, as plain text. */

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";

import { formatWhole } from "../../chart/index.ts";
import type { Page } from "../../state/page.ts";

export const TABLE_TYPE = "application/vnd.epochal.table+json";
/** More rows and columns are in the file alone. */
const MOST_ROWS = 1000;
const MOST_COLUMNS = 100;
const MOST_BYTES = 16 * 1024 * 1024;

export interface TableData {
  readonly columns: readonly string[];
  readonly rows: readonly (readonly unknown[])[];
}

interface BlobTableProps {
  readonly page: Page;
  readonly run: string;
  readonly file: string;
  readonly bytes: number | null;
}

export function BlobTable({ page, run, file, bytes }: BlobTableProps): JSX.Element {
  const [table, setTable] = useState<TableData | string | null>(null);
  useEffect(() => {
    if (bytes !== null && bytes > MOST_BYTES) {
      setTable("This table is too large to be shown.");
      return;
    }
    let isWanted = true;
    page.source.blobText(run, file).then(
      (text) => isWanted && setTable(parseTable(text) ?? "This file is not a table."),
      (error: unknown) => isWanted && setTable(error instanceof Error ? error.message : String(error)),
    );
    return () => {
      isWanted = false;
    };
  }, [page, run, file, bytes]);
  if (table === null) return <p role="status">Loading…</p>;
  if (typeof table === "string") return <p role="status">{table}</p>;
  const columns = table.columns.slice(0, MOST_COLUMNS);
  const rows = table.rows.slice(0, MOST_ROWS);
  const isCut = rows.length < table.rows.length || columns.length < table.columns.length;
  return (
    <>
      <div class="blob-table" tabIndex={0}>
        <table>
          <thead><tr>{columns.map((name, index) => <th key={index} scope="col">{name}</th>)}</tr></thead>
          <tbody>{rows.map((row, number) => <tr key={number}>{columns.map((_, index) => <Cell key={index} value={row[index]} />)}</tr>)}</tbody>
        </table>
      </div>
      {isCut && <p>{`${formatWhole(rows.length)} of ${formatWhole(table.rows.length)} rows and ${columns.length} of ${table.columns.length} columns`}</p>}
    </>
  );
}

function Cell({ value }: { readonly value: unknown }): JSX.Element {
  return <td class={typeof value === "number" ? "is-number" : undefined}>{cellText(value)}</td>;
}

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
  if (!Array.isArray(columns) || !Array.isArray(data) || !data.every((row) => Array.isArray(row))) return null;
  return { columns: columns.map(String), rows: data as readonly (readonly unknown[])[] };
}

export function cellText(value: unknown): string {
  if (value === null || value === undefined) return "";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
