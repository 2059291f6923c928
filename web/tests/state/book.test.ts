import { signal } from "@preact/signals";
import { beforeEach, expect, test, vi } from "vitest";

import type { RecordsNews, SeriesAnswer, SeriesRequest, Source } from "../../src/source/source.ts";
import { createBook } from "../../src/state/book.ts";
import type { Book, Cell, CellRequest } from "../../src/state/book.ts";
import type { Points, SeriesHead } from "../../src/wire.ts";

/** A server with one run whose `loss` at step n is n; it knows as many records as it is told. */
function server(): { source: Source; asked: SeriesRequest[]; records: { count: number } } {
  const asked: SeriesRequest[] = [];
  const records = { count: 0 };
  const series = async (request: SeriesRequest): Promise<SeriesAnswer> => {
    asked.push(request);
    const x = Float64Array.from({ length: records.count }, (_, step) => step);
    const head = { run: "a", name: "loss", rank: 0, axis: "step", x: "step", raw: true, count: x.length } as SeriesHead;
    return { parts: [{ head, data: { kind: "raw", x, y: x.slice() }, times: null }], missing: [], positions: { a: place(records.count) } };
  };
  return { asked, records, source: { series, connection: signal("live") } as unknown as Source };
}

function place(count: number): string {
  return `a:loop.1.0.${count}`;
}

function news(from: number, to: number): RecordsNews {
  const x = Array.from({ length: to - from }, (_, index) => from + index);
  const points: Points = { name: "loss", axis: "step", rank: 0, x, t: x.map(() => null), value: x, nonfinite: {} };
  return { type: "records", run: "a", from: place(from), to: place(to), points: [points], entries: [] };
}

const LOSS: CellRequest = { run: "a", name: "loss", x: "step", range: null, pixels: 600 };

function steps(cell: Cell): number[] {
  const data = cell.parts.value?.[0]?.data;
  return data?.kind === "raw" ? [...data.x] : [];
}

function opened(count: number): ReturnType<typeof server> & { book: Book; cell: Cell } {
  const made = server();
  made.records.count = count;
  const book = createBook(made.source, () => 1000);
  return { ...made, book, cell: book.open(LOSS) };
}

const settle = (): Promise<unknown> => vi.advanceTimersByTimeAsync(50);
const late = (): Promise<unknown> => vi.advanceTimersByTimeAsync(3000);

beforeEach(() => {
  vi.useFakeTimers();
});

test("news that follow are added without asking", async () => {
  const { book, cell, asked } = opened(3);
  await settle();
  book.apply(news(3, 5));
  book.apply(news(5, 6));
  expect(steps(cell)).toEqual([0, 1, 2, 3, 4, 5]);
  expect(asked).toHaveLength(1);
});

test("news that are known already change nothing", async () => {
  const { book, cell } = opened(3);
  await settle();
  book.apply(news(0, 2));
  book.apply(news(1, 4));
  expect(steps(cell)).toEqual([0, 1, 2, 3]);
});

test("news that came while an answer was under way are not lost", async () => {
  const { book, cell, records } = opened(3);
  await vi.advanceTimersByTimeAsync(12);
  book.apply(news(3, 4));
  await settle();
  records.count = 4;
  expect(steps(cell)).toEqual([0, 1, 2, 3]);
});

test("a gap is asked for", async () => {
  const { book, cell, records, asked } = opened(3);
  await settle();
  records.count = 9;
  book.apply(news(7, 9));
  expect(steps(cell)).toEqual([0, 1, 2]);
  await late();
  expect(steps(cell)).toHaveLength(9);
  expect(asked).toHaveLength(2);
});

test("nothing grows during a pause, and everything catches up after it", async () => {
  const { book, cell, records } = opened(3);
  await settle();
  book.pause(true);
  book.apply(news(3, 4));
  await late();
  expect(steps(cell)).toHaveLength(3);
  records.count = 4;
  book.pause(false);
  await late();
  expect(steps(cell)).toHaveLength(4);
});

test("a cell that was closed is asked for again only if it changed", async () => {
  const { book, asked } = opened(3);
  await settle();
  book.close(LOSS);
  book.open(LOSS);
  await late();
  expect(asked).toHaveLength(1);
  book.close(LOSS);
  book.apply(news(3, 4));
  book.open(LOSS);
  await late();
  expect(asked).toHaveLength(2);
});

test("an answer that failed is asked for again, and the last one stays", async () => {
  const { book, cell, source, records } = opened(3);
  await settle();
  const { series } = source;
  Object.assign(source, { series: () => Promise.reject(new Error("The server does not answer.")) });
  book.renew("a");
  await late();
  expect(cell.problem.value).toBe("The server does not answer.");
  expect(steps(cell)).toHaveLength(3);
  Object.assign(source, { series });
  records.count = 5;
  await late();
  expect(cell.problem.value).toBeNull();
  expect(steps(cell)).toHaveLength(5);
});
