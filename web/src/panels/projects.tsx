/** Every project: how many runs, which are live or failed, the best value and the last activity; several can be viewed together. */

import type { JSX } from "preact";

import { formatDuration, formatNumber, formatWhole } from "../chart/index.ts";
import type { Page } from "../state/page.ts";
import { chosenProjects } from "../state/projects.ts";
import { useSweep } from "../state/sweep.ts";
import type { ProjectRow } from "../wire.ts";
import type { PanelProps } from "./panel.ts";
import "./projects.css";

const BAD = ["failed", "crashed"];

export function Projects({ page }: PanelProps): JSX.Element {
  const { answer, problem } = useSweep(page, "projects", () => page.source.projects());
  const chosen = chosenProjects(page.view.project.value, page.runs.projects.value);
  if (problem !== null)
    return (
      <p class="problem" role="alert">
        {problem}
      </p>
    );
  if (answer === null)
    return (
      <div class="pane" aria-busy="true">
        <p class="card-note">Counting runs …</p>
      </div>
    );
  const toggle = (name: string): void => {
    const before = chosen ?? [];
    const next = before.includes(name) ? before.filter((one) => one !== name) : [...before, name];
    show(page, next.length === 0 ? null : next.join(","));
  };
  return (
    <div class="pane">
      <p class="card-note">
        {chosen === null
          ? "You see all projects. Choose one, or check several."
          : `You see ${chosen.join(", ")}. `}
        {chosen !== null && (
          <button type="button" class="link" onClick={() => show(page, null)}>
            All projects
          </button>
        )}
      </p>
      <div class="projects" role="region" aria-label="Projects" data-title="Projects" tabIndex={0}>
        <table>
          <thead>
            <tr>
              <th scope="col">
                <span class="visually-hidden">In view</span>
              </th>
              <th scope="col">project</th>
              <th scope="col">runs</th>
              <th scope="col">live</th>
              <th scope="col">failed</th>
              <th scope="col">open findings</th>
              <th scope="col">best</th>
              <th scope="col">last activity</th>
              <th scope="col">owners</th>
            </tr>
          </thead>
          <tbody>
            {answer.projects.map((row) => (
              <Project
                key={row.name}
                page={page}
                row={row}
                isChosen={chosen?.includes(row.name) ?? false}
                onToggle={() => toggle(row.name)}
              />
            ))}
          </tbody>
        </table>
      </div>
    </div>
  );
}

function Project({
  page,
  row,
  isChosen,
  onToggle,
}: {
  readonly page: Page;
  readonly row: ProjectRow;
  readonly isChosen: boolean;
  readonly onToggle: () => void;
}): JSX.Element {
  const numBad = BAD.reduce((sum, state) => sum + (row.states[state] ?? 0), 0);
  const states = Object.entries(row.states)
    .map(([state, count]) => `${count} ${state}`)
    .join(", ");
  const openRun = (id: string): void => {
    show(page, row.name);
    page.view.focus.value = id;
    page.open("run");
  };
  return (
    <tr class={isChosen ? "is-chosen" : ""}>
      <td>
        <input
          type="checkbox"
          checked={isChosen}
          aria-label={`View ${row.name}`}
          onChange={onToggle}
        />
      </td>
      <th scope="row">
        <button
          type="button"
          class="link"
          onClick={() => {
            show(page, row.name);
            page.open("run");
          }}
        >
          {row.name}
        </button>
      </th>
      <td class="is-number" title={states}>
        {formatWhole(row.runs)}
      </td>
      <td class="is-number">
        {row.running.length === 0 ? (
          ""
        ) : (
          <button
            type="button"
            class="link is-live"
            title="Open the newest of them"
            onClick={() => openRun(row.running[0]!)}
          >
            {formatWhole(row.states.running ?? 0)}
          </button>
        )}
      </td>
      <td class={`is-number${numBad > 0 ? " is-critical" : ""}`}>
        {numBad === 0 ? "" : formatWhole(numBad)}
      </td>
      <td title="Runs with open errors, and runs with open warnings only">
        {row.errors > 0 && <span class="is-critical">✕ {formatWhole(row.errors)} </span>}
        {row.warnings > 0 && <span class="is-warning">▲ {formatWhole(row.warnings)}</span>}
      </td>
      <td>
        {row.best !== null && (
          <button
            type="button"
            class="link"
            title={`${row.best.role.replace("_", " ")} ${row.best.value} of ${row.best.name}`}
            onClick={() => openRun(row.best!.run)}
          >
            {formatNumber(row.best.value)}{" "}
            <span class="card-note">{row.best.role.replace("_", " ")}</span>
          </button>
        )}
      </td>
      <td>
        {row.updated === null
          ? ""
          : `${formatDuration(Math.max(1, Math.floor(page.now.value - row.updated)))} ago`}
      </td>
      <td class="projects-owners" title={row.owners.join(", ")}>
        {row.owners.join(", ")}
      </td>
    </tr>
  );
}

function show({ view }: Page, project: string | null): void {
  view.project.value = project;
  view.shown.value = null;
  view.focus.value = null;
}
