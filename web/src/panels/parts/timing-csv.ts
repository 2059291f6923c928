/** Phases and timelines as files: every record, values in full. */

import { csvField } from "../../chart/line/exports.ts";
import type { StepPhases } from "../phases-record.ts";
import { phaseNames } from "../phases-record.ts";
import type { TimelineSpan } from "../timeline-record.ts";

export function phaseTable(records: readonly StepPhases[]): string {
  const names = phaseNames(records).slice(0, -1);
  const lines = [["step", "steps", "wall_ms", ...names].map(csvField).join(",")];
  for (const { step, steps, wallMs, ms } of records) lines.push([step, steps, wallMs ?? "", ...names.map((name) => ms.get(name) ?? "")].join(","));
  return `${lines.join("\r\n")}\r\n`;
}

export function timelineTable(spans: readonly TimelineSpan[]): string {
  const lines = ["lane,name,start,end,duration_ms,step"];
  for (const { lane, label, from, to, step } of spans) {
    lines.push([csvField(lane), csvField(label), from, to, Math.round((to - from) * 1e6) / 1000, step ?? ""].join(","));
  }
  return `${lines.join("\r\n")}\r\n`;
}
