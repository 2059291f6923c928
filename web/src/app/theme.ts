/** Light, dark or as the system is; a choice of the person, not of the view, so it is kept by the browser and not in the address. */

import { effect, signal } from "@preact/signals";
import type { Signal } from "@preact/signals";

import { store, stored } from "../state/storage.ts";

export type Theme = "system" | "light" | "dark";

export const THEMES: readonly Theme[] = ["system", "light", "dark"];

export function createTheme(root: HTMLElement = document.documentElement): Signal<Theme> {
  const theme = signal<Theme>(THEMES.find((one) => one === stored("theme")) ?? "system");
  effect(() => {
    if (theme.value === "system") delete root.dataset.theme;
    else root.dataset.theme = theme.value;
    store("theme", theme.value);
  });
  return theme;
}
