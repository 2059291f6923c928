/** The binary body of `/api/series`; `docs/explanation/http.md` has its layout to the byte. */

import { WIRE_VERSION } from "../wire.ts";
import type { SeriesHead, SeriesHeader } from "../wire.ts";
import type { SeriesAnswer, SeriesPart } from "./source.ts";

const MAGIC = "EPS1";
const PREFIX_BYTES = 8;
const RAW_COLUMNS = 3;
const SLICE_COLUMNS = 7;
const MARK_COLUMNS = 2;
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
  const take = columnReader(body, start);
  const parts = header.series.map((head) => readPart(head, take));
  return { parts, missing: header.missing, positions: header.positions };
}

type Take = (count: number) => Float64Array;

function columnReader(body: ArrayBuffer, start: number): Take {
  let at = start;
  return (count) => {
    const from = at;
    at += count * Float64Array.BYTES_PER_ELEMENT;
    if (at > body.byteLength) throw new Error("the body of series was cut off");
    if (IS_LITTLE_ENDIAN) return new Float64Array(body, from, count);
    const view = new DataView(body, from);
    return Float64Array.from({ length: count }, (_, index) => view.getFloat64(index * 8, true));
  };
}

function readPart(head: SeriesHead, take: Take): SeriesPart {
  const columns = Array.from({ length: head.raw ? RAW_COLUMNS : SLICE_COLUMNS }, () =>
    take(head.count),
  );
  const [nonfiniteX, kinds] = Array.from({ length: MARK_COLUMNS }, () => take(head.nonfinite)) as [
    Float64Array,
    Float64Array,
  ];
  const further =
    head.columns === undefined
      ? {}
      : { columns: Object.fromEntries(head.columns.map((name) => [name, take(head.count)])) };
  if (head.raw) {
    const [x, y, times] = columns as [Float64Array, Float64Array, Float64Array];
    return { head, data: { kind: "raw", x, y }, times, ...further };
  }
  const [firstX, lastX, last, mean, min, max, count] = columns as unknown as readonly [
    Float64Array,
    Float64Array,
    Float64Array,
    Float64Array,
    Float64Array,
    Float64Array,
    Float64Array,
  ];
  const nonfinite = kinds.map(nonfiniteValue);
  return {
    head,
    data: { kind: "buckets", firstX, lastX, last, mean, min, max, count, nonfiniteX, nonfinite },
    times: null,
    ...further,
  };
}

/** 0 stands for nan, 1 and -1 for the infinities. */
function nonfiniteValue(kind: number): number {
  return kind === 0 ? NaN : kind * Infinity;
}

function latin1(body: ArrayBuffer, from: number, length: number): string {
  return String.fromCharCode(...new Uint8Array(body, from, length));
}
