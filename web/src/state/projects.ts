/** Which projects are in view: all, one, or several, which the address has with commas between. */

import type { ProjectRow, RunRow } from "../wire.ts";
import { groupBy } from "./group-by.ts";
import { headline } from "./run-rows.ts";

/** The chosen projects; null for all. A name with a comma in it is one project. */
export function chosenProjects(
  choice: string | null,
  known: readonly string[],
): readonly string[] | null {
  if (choice === null || choice === "") return null;
  return known.includes(choice) ? [choice] : choice.split(",");
}

/** The overview of projects, of runs that are all here. */
export function projectRows(rows: readonly RunRow[]): readonly ProjectRow[] {
  const found = [...groupBy(rows, ({ project }) => project)].map(
    ([name, runs]): ProjectRow => ({
      name,
      runs: runs.length,
      states: Object.fromEntries(
        [...groupBy(runs, ({ status }) => status.state)].map(([state, some]) => [
          state,
          some.length,
        ]),
      ),
      running: runs.filter(({ status }) => status.state === "running").map(({ id }) => id),
      errors: runs.filter(({ errors }) => (errors ?? 0) > 0).length,
      warnings: runs.filter(({ errors, warnings }) => (errors ?? 0) === 0 && (warnings ?? 0) > 0)
        .length,
      owners: [...new Set(runs.map(({ owner }) => owner).filter((owner) => owner !== null))].sort(),
      tags: [...new Set(runs.flatMap(({ tags }) => tags))],
      created: newest(runs.map(({ created }) => created)),
      updated: newest(runs.map(({ updated }) => updated)),
      best: bestOf(runs),
    }),
  );
  return found.sort((one, other) => (other.updated ?? 0) - (one.updated ?? 0));
}

function newest(times: readonly (number | null)[]): number | null {
  return times.reduce(
    (latest, time) => (time !== null && (latest === null || time > latest) ? time : latest),
    null,
  );
}

function bestOf(runs: readonly RunRow[]): ProjectRow["best"] {
  let best: ProjectRow["best"] = null;
  for (const row of runs) {
    const found = headline(row);
    const value = found?.summary.min ?? null;
    if (found !== null && value !== null && (best === null || value < best.value))
      best = { role: found.role.replace(" ", "_"), value, run: row.id, name: row.name };
  }
  return best;
}
