/** The page's colours as drawing code needs them: read from its style sheet, read again when the theme changes. */

const COLORS = [
  "ink",
  "muted",
  "grid",
  "line",
  "surface",
  "accent",
  "good",
  "warning",
  "critical",
] as const;

export type ChartTheme = { readonly isDark: boolean } & Readonly<
  Record<(typeof COLORS)[number], string>
>;

/** Read the theme that applies to an element. */
export function readTheme(element: Element): ChartTheme {
  const style = getComputedStyle(element);
  const colors = Object.fromEntries(
    COLORS.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]),
  ) as Record<(typeof COLORS)[number], string>;
  return { isDark: isDarkTheme(), ...colors };
}

/** Whether the page is dark: by its `data-theme` attribute, otherwise as the system is. */
export function isDarkTheme(): boolean {
  const chosen = document.documentElement.dataset.theme;
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
