/** The fields of a `sol` record beside what was reached: how fast a run is and could be. */

import { formatCount } from "../../chart/index.ts";

type Fields = Readonly<Record<string, unknown>>;

export interface Reached {
  /** Tokens a second. */
  readonly throughput: number | null;
  /** Percent. */
  readonly sol: number | null;
  readonly mfu: number | null;
}

export interface Speed extends Reached {
  /** Tokens a second at the speed of light. */
  readonly possible: number | null;
  readonly work: readonly { readonly label: string; readonly flop: number }[];
  readonly peaks: readonly { readonly label: string; readonly tflops: number }[];
  /** The peak that was measured on this device, beside the one that its maker gives. */
  readonly measured: {
    readonly tflops: number;
    readonly spec: number;
    readonly share: number;
  } | null;
  readonly device: string | null;
  readonly note: string | null;
}

const PARTS: readonly (readonly [field: string, label: string])[] = [
  ["blocks", "blocks"],
  ["attention", "attention"],
  ["lm_head", "output layer"],
];
const PEAK = /^(tf32|bf16|fp16|fp8|fp4|fp32)_peak$/;

export function speedOf(fields: Fields, reached: Reached): Speed {
  const dtype = text(fields.dtype);
  const spec = number(fields[`${dtype ?? "bf16"}_peak`]);
  const tflops = number(fields.measured_peak);
  const device = text(fields.device);
  const numDevices = number(fields.world_size) ?? 1;
  return {
    ...reached,
    possible: number(fields.tps),
    work: PARTS.flatMap(([field, label]) => {
      const flop = number(fields[field]);
      return flop === null ? [] : [{ label, flop }];
    }),
    peaks: [
      ...Object.entries(fields).flatMap(([name, value]) => {
        const [, kind] = PEAK.exec(name) ?? [];
        return kind === undefined || number(value) === null
          ? []
          : [{ label: `${kind}${kind === dtype ? ", in use" : ""}`, tflops: number(value)! }];
      }),
      ...(tflops === null ? [] : [{ label: `${dtype ?? "peak"}, measured here`, tflops }]),
    ],
    measured: tflops === null || spec === null ? null : { tflops, spec, share: tflops / spec },
    device: device === null ? null : `${numDevices > 1 ? `${numDevices} × ` : ""}${device}`,
    note: text(fields.note),
  };
}

function number(value: unknown): number | null {
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}

function text(value: unknown): string | null {
  return typeof value === "string" && value !== "" ? value : null;
}

/** Such as `23.6 GFLOP`. */
export function flopText(flop: number): string {
  return formatCount(flop).replace(/\D?$/, (unit) => ` ${unit === "B" ? "G" : unit}FLOP`);
}
