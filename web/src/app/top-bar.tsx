/** The line at the top: the project, whether the page is live, and the theme. */

import type { Signal } from "@preact/signals";
import type { JSX } from "preact";

import type { Page } from "../state/page.ts";
import { chosenProjects } from "../state/projects.ts";
import { Menu } from "../ui/menu.tsx";
import { THEMES } from "./theme.ts";
import type { Theme } from "./theme.ts";

export interface TopBarProps {
  readonly page: Page;
  readonly theme: Signal<Theme>;
  readonly onDrawer: () => void;
  readonly onShortcuts: () => void;
}

export function TopBar({ page, theme, onDrawer, onShortcuts }: TopBarProps): JSX.Element {
  return (
    <header class="top">
      <button
        type="button"
        class="button is-quiet top-drawer"
        aria-label="Runs"
        title="Runs"
        onClick={onDrawer}
      >
        ☰
      </button>
      <h1 class="brand">Epochal</h1>
      <Projects page={page} />
      <span class="top-space" />
      <Live page={page} />
      <Menu
        label="Theme"
        items={THEMES.map((one) => ({
          label: THEME_NAMES[one],
          isOn: theme.value === one,
          run: () => (theme.value = one),
        }))}
      >
        ◐
      </Menu>
      <button
        type="button"
        class="button is-quiet top-help"
        aria-label="Keyboard shortcuts"
        title="Keyboard shortcuts (?)"
        onClick={onShortcuts}
      >
        ?
      </button>
    </header>
  );
}

const THEME_NAMES: Readonly<Record<Theme, string>> = {
  system: "As the system",
  light: "Light",
  dark: "Dark",
};

function Projects({ page }: { readonly page: Page }): JSX.Element | null {
  const { projects } = page.runs;
  const { project } = page.view;
  if (projects.value.length < 2)
    return projects.value.length === 0 ? null : (
      <span class="top-project">{projects.value[0]}</span>
    );
  const items = [null, ...projects.value].map((one) => ({
    label: one ?? "All projects",
    isOn: project.value === one,
    run: () => {
      project.value = one;
      page.view.shown.value = null;
      page.view.focus.value = null;
    },
  }));
  const several = chosenProjects(project.value, projects.value);
  return (
    <span class="top-project">
      <Menu
        label={`Project: ${several?.join(", ") ?? "All projects"}`}
        items={[
          ...items,
          "divider",
          { label: "Overview of projects…", hint: "q", run: () => page.open("projects") },
        ]}
      >
        {several?.join(", ") ?? "All projects"} ▾
      </Menu>
    </span>
  );
}

function Live({ page }: { readonly page: Page }): JSX.Element | null {
  const state = page.source.connection.value;
  if (state === "archive")
    return (
      <span class="live is-archive" title="Archive: a saved page that does not update">
        saved page
      </span>
    );
  if (state === "lost")
    return (
      <span
        class="live is-lost"
        role="status"
        title="The server does not respond; the page reconnects automatically"
      >
        reconnecting…
      </span>
    );
  const isPaused = page.isPaused.value;
  return (
    <button
      type="button"
      class={`live${isPaused ? " is-paused" : ""}`}
      aria-pressed={isPaused}
      title={isPaused ? "Paused: go on (p)" : "Live: pause (p)"}
      onClick={() => (page.isPaused.value = !isPaused)}
    >
      {isPaused ? "paused" : state === "live" ? "live" : "…"}
    </button>
  );
}
