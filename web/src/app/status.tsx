/** How a run stands, as a dot with its words. */

import type { JSX } from "preact";

import type { RunRow } from "../wire.ts";

type StatusLevel = "waiting" | "running" | "done" | "warning" | "critical";

const MOODS: Readonly<Record<RunRow["status"]["state"], StatusLevel>> = {
  waiting: "waiting",
  running: "running",
  finished: "done",
  interrupted: "warning",
  terminated: "warning",
  silent: "warning",
  failed: "critical",
  crashed: "critical",
  unreadable: "critical",
};

export function StatusDot({ row }: { readonly row: RunRow }): JSX.Element {
  const { state, text, reason } = row.status;
  const words = reason === null ? text : `${text}: ${reason}`;
  return <i class={`dot is-${MOODS[state]}`} role="img" aria-label={words} title={words} />;
}

export function statusLevelOf(row: RunRow): StatusLevel {
  return MOODS[row.status.state];
}
