/** A chart as CSV: every point as it was logged, or every step of each group; a saved page has slices, marked as such. */

import { formatNumber } from "../../chart/index.ts";
import type { SeriesPart } from "../../source/source.ts";
import type { ChartSpec } from "../../state/chart-spec.ts";
import type { Page } from "../../state/page.ts";
import { csvField } from "../../ui/download.ts";
import { bucketNote } from "./bucket-note.ts";
import { curvesTable, drawsGroups } from "./curves.ts";
import { curvesRequest, subjectOf } from "./metric-chart.tsx";

export async function chartCsv(page: Page, spec: ChartSpec): Promise<string> {
  const { source, runs } = page;
  const subject = subjectOf(page, spec);
  const { names, x } = subject;
  if (drawsGroups(page))
    return curvesTable(
      await Promise.all(
        names.map((metric) =>
          source.sweep.curves!({ ...curvesRequest(page, subject), metric, points: 0 }),
        ),
      ),
    );
  const { parts } = await source.series({
    runs: runs.drawn.value.map(({ id }) => id),
    names,
    x,
    ranks: "all",
    pixels: 0,
  });
  return seriesTable(parts, (run) => runs.row(run)?.name ?? run);
}

export function seriesTable(parts: readonly SeriesPart[], nameOf: (run: string) => string): string {
  const hasSlices = parts.some(({ data }) => data.kind === "buckets");
  const columns = hasSlices
    ? ["last_x", "mean", "min", "min_x", "max", "max_x", "points", "bucket"]
    : ["value", "t"];
  const lines = [["run", "id", "rank", "metric", "axis", "x", ...columns].join(",")];
  for (const part of parts) {
    const { run, rank, name, x } = part.head;
    const start = [nameOf(run), run, String(rank), name, x].map(csvField).join(",");
    const end = hasSlices ? `,${bucketNote([part], x) ?? "every point"}` : "";
    for (const row of rowsOf(part, hasSlices))
      lines.push(`${start},${row.map(exact).join(",")}${end}`);
  }
  return `${lines.join("\r\n")}\r\n`;
}

function* rowsOf({ data, times }: SeriesPart, hasSlices: boolean): Iterable<number[]> {
  if (data.kind === "raw") {
    for (const [index, y] of data.y.entries()) {
      yield hasSlices
        ? [data.x[index]!, data.x[index]!, y, y, data.x[index]!, y, data.x[index]!, 1]
        : [data.x[index]!, y, times?.[index] ?? NaN];
    }
    return;
  }
  const { firstX, lastX, mean, min, minX, max, maxX, count } = data;
  for (const index of mean.keys())
    yield [firstX, lastX, mean, min, minX, max, maxX, count].map((column) => column[index]!);
}

function exact(value: number): string {
  return Number.isFinite(value) ? String(value) : formatNumber(value);
}
