/** The binary body of `/api/series`; `docs/explanation/http.md` has its layout to the byte. */

import { WIRE_VERSION } from "../wire.ts";
import type { SeriesHead, SeriesHeader } from "../wire.ts";
import type { SeriesAnswer, SeriesPart } from "./source.ts";

const MAGIC = "EPS1";
const PREFIX_BYTES = 8;
const ALIGNMENT = 8;
const IS_LITTLE_ENDIAN = new Uint8Array(new Uint32Array([1]).buffer)[0] === 1;

export function decodeSeries(body: ArrayBuffer): SeriesAnswer {
  const view = new DataView(body);
  if (body.byteLength < PREFIX_BYTES || latin1(body, 0, 4) !== MAGIC)
    throw new Error("this is not a body of series");
  const headBytes = view.getUint32(4, true);
  const start = PREFIX_BYTES + headBytes;
  if (start > body.byteLength) throw new Error("the body of series was cut off in its head");
  const header = JSON.parse(
    new TextDecoder().decode(new Uint8Array(body, PREFIX_BYTES, headBytes)),
  ) as SeriesHeader;
  if (header.version !== WIRE_VERSION)
    throw new Error(`the server speaks version ${header.version}: load the page again`);
  const columns = columnReader(body, start);
  const parts = header.series.map((head) =>
    head.raw ? readPoints(head, columns) : readSlices(head, columns),
  );
  return { parts, missing: header.missing, positions: header.positions };
}

interface ColumnReader {
  /** Floats as they lie in memory. */
  doubles(count: number): Float64Array;
  /** Values of 4 or 8 bytes, packed. */
  floats(count: number): Float64Array;
  /** Whole numbers of as many bytes as the largest needs, packed. */
  whole(count: number): Float64Array;
  align(): void;
}

function columnReader(body: ArrayBuffer, start: number): ColumnReader {
  let at = start;
  const take = (size: number): number => {
    at += size;
    if (at > body.byteLength) throw new Error("the body of series was cut off");
    return at - size;
  };
  /** Packed columns have the number of bytes of a value, the first byte of all values, the second of all, and so on. */
  const planes = (count: number): readonly Uint8Array[] => {
    const width = new Uint8Array(body, take(1), 1)[0]!;
    return Array.from({ length: width }, () => new Uint8Array(body, take(count), count));
  };
  return {
    doubles(count) {
      const from = take(count * 8);
      if (IS_LITTLE_ENDIAN) return new Float64Array(body, from, count);
      const view = new DataView(body, from);
      return Float64Array.from({ length: count }, (_, index) => view.getFloat64(index * 8, true));
    },
    floats(count) {
      const found = planes(count);
      const width = found.length;
      const bytes = new Uint8Array(count * width);
      for (const [place, plane] of found.entries())
        for (let index = 0; index < count; index++) bytes[index * width + place] = plane[index]!;
      const view = new DataView(bytes.buffer);
      const values = new Float64Array(count);
      for (let index = 0; index < count; index++)
        values[index] =
          width === 4 ? view.getFloat32(index * 4, true) : view.getFloat64(index * 8, true);
      return values;
    },
    whole(count) {
      const values = new Float64Array(count);
      for (const [place, plane] of planes(count).entries())
        for (let index = 0; index < count; index++) values[index]! += plane[index]! * 256 ** place;
      return values;
    },
    align() {
      at += -at & (ALIGNMENT - 1);
    },
  };
}

function readPoints(head: SeriesHead, { doubles }: ColumnReader): SeriesPart {
  const [x, y, times] = [doubles(head.count), doubles(head.count), doubles(head.count)];
  return { head, data: { kind: "raw", x, y }, times, ...furtherColumns(head, doubles) };
}

function readSlices(head: SeriesHead, columns: ColumnReader): SeriesPart {
  const { count, nonfinite: numMarks = 0 } = head;
  const { floats, whole } = columns;
  const isWhole = head.whole === true;
  const places = isWhole ? whole : floats;
  const [firstX, lastX, minX, maxX] = [places(count), places(count), places(count), places(count)];
  if (isWhole) addStarts(firstX, lastX, minX, maxX);
  const points = whole(count);
  const [mean, min, max] = [floats(count), floats(count), floats(count)];
  const further = furtherColumns(head, floats);
  const nonfiniteX = places(numMarks);
  if (isWhole) for (let at = 1; at < numMarks; at++) nonfiniteX[at]! += nonfiniteX[at - 1]!;
  const nonfinite = whole(numMarks).map((kind) => NONFINITE[kind]!);
  columns.align();
  const last = head.last ?? null;
  return {
    head,
    data: {
      kind: "buckets",
      firstX,
      lastX,
      minX,
      maxX,
      mean,
      min,
      max,
      count: points,
      last,
      nonfiniteX,
      nonfinite,
    },
    times: null,
    ...further,
  };
}

const NONFINITE = [NaN, Infinity, -Infinity];

/** Whole x come as the distance from the end of the slice before to the start of each, and from there to the others. */
function addStarts(
  firstX: Float64Array,
  ...others: readonly [Float64Array, ...Float64Array[]]
): void {
  let end = 0;
  for (let index = 0; index < firstX.length; index++) {
    firstX[index]! += end;
    for (const column of others) column[index]! += firstX[index]!;
    end = others[0][index]!;
  }
}

function furtherColumns(
  { columns, count }: SeriesHead,
  read: (count: number) => Float64Array,
): Pick<SeriesPart, "columns"> {
  if (columns === undefined) return {};
  return { columns: Object.fromEntries(columns.map((name) => [name, read(count)])) };
}

function latin1(body: ArrayBuffer, from: number, length: number): string {
  return String.fromCharCode(...new Uint8Array(body, from, length));
}
