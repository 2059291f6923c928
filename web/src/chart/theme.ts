/** The page's colours as drawing code needs them: read from its style sheet, read again when the theme changes. */

export interface ChartTheme {
  readonly isDark: boolean;
  readonly ink: string;
  readonly muted: string;
  readonly grid: string;
  readonly line: string;
  readonly surface: string;
  readonly accent: string;
  readonly good: string;
  readonly warning: string;
  readonly critical: string;
}

/** Read the theme that applies to an element. */
export function readTheme(element: Element): ChartTheme {
  const style = getComputedStyle(element);
  const color = (name: string, otherwise: string): string => style.getPropertyValue(name).trim() || otherwise;
  const isDark = isDarkTheme();
  return {
    isDark,
    ink: color("--ink", isDark ? "#e8eaee" : "#16181d"),
    muted: color("--muted", isDark ? "#9aa1ad" : "#5c626d"),
    grid: color("--grid", isDark ? "#22262d" : "#eceef1"),
    line: color("--line", isDark ? "#2b3038" : "#dfe2e7"),
    surface: color("--surface", isDark ? "#16191e" : "#ffffff"),
    accent: color("--accent", isDark ? "#7aa2ff" : "#2456d6"),
    good: color("--good", isDark ? "#4dc583" : "#23744a"),
    warning: color("--warning", isDark ? "#f2b33d" : "#9a5b00"),
    critical: color("--critical", isDark ? "#ff7a66" : "#c0291d"),
  };
}

/** Whether the page is dark: by its `data-theme` attribute, otherwise as the system is. */
export function isDarkTheme(): boolean {
  const chosen = document.documentElement.dataset["theme"];
  if (chosen === "dark" || chosen === "light") return chosen === "dark";
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

/** Call back whenever the page's theme changes, by the system or by the `data-theme` attribute. */
export function onThemeChange(callback: () => void): () => void {
  const system = matchMedia("(prefers-color-scheme: dark)");
  system.addEventListener("change", callback);
  const observer = new MutationObserver(callback);
  observer.observe(document.documentElement, { attributeFilter: ["data-theme"] });
  return () => {
    system.removeEventListener("change", callback);
    observer.disconnect();
  };
}
