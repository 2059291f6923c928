/** Light, dark or as the system is; a choice of the person, not of the view, so it is kept by the browser and not in the address. */

import { effect, signal } from "@preact/signals";
import type { Signal } from "@preact/signals";

export type Theme = "system" | "light" | "dark";

const KEY = "epochal theme";
export const THEMES: readonly Theme[] = ["system", "light", "dark"];

export function createTheme(root: HTMLElement = document.documentElement): Signal<Theme> {
  const theme = signal<Theme>(THEMES.find((one) => one === stored()) ?? "system");
  effect(() => {
    if (theme.value === "system") delete root.dataset["theme"];
    else root.dataset["theme"] = theme.value;
    store(theme.value);
  });
  return theme;
}

/** Null where the browser keeps nothing, as in a frame without cookies. */
function stored(): string | null {
  try {
    return localStorage.getItem(KEY);
  } catch (error) {
    if (!(error instanceof DOMException)) throw error;
    return null;
  }
}

function store(theme: Theme): void {
  try {
    localStorage.setItem(KEY, theme);
  } catch (error) {
    if (!(error instanceof DOMException)) throw error;
  }
}
