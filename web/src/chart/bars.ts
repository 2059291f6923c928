/** Resource bars: how much of a limit is used, as elements of the page so that text stays text. */

import { slotCss } from "./palette.ts";
import { element } from "./tooltip.ts";

export interface Bar {
  readonly label: string;
  /** Share of the limit, 0 to 1; null when it is not known, which is not 0. */
  readonly share: number | null;
  readonly text: string;
  readonly severity?: "normal" | "warning" | "critical";
}

export interface Segment {
  readonly label: string;
  readonly value: number;
  readonly text: string;
  readonly slot: number;
}

export interface Widget<Data> {
  update(data: Data): void;
  destroy(): void;
}

export function createBars(root: HTMLElement, bars: readonly Bar[]): Widget<readonly Bar[]> {
  const list = element("div", "chart-bars");
  root.append(list);
  const update = (next: readonly Bar[]): void => {
    while (list.children.length > next.length) list.lastElementChild!.remove();
    next.forEach((bar, index) =>
      fillBar(
        (list.children[index] as HTMLElement | undefined) ?? list.appendChild(emptyBar()),
        bar,
      ),
    );
  };
  update(bars);
  return { update, destroy: () => list.remove() };
}

/** One bar of several parts with their names below; parts are shares of `total`, or of their sum. */
export function createStackedBar(
  root: HTMLElement,
  data: { readonly segments: readonly Segment[]; readonly total?: number },
): Widget<{ readonly segments: readonly Segment[]; readonly total?: number }> {
  const frame = element("div", "chart-stack");
  root.append(frame);
  const update = (next: {
    readonly segments: readonly Segment[];
    readonly total?: number;
  }): void => {
    const widths = stackShares(
      next.segments.map(({ value }) => value),
      next.total,
    );
    const track = element("div", "chart-stack-track");
    const names = element("div", "chart-legend");
    next.segments.forEach((segment, index) => {
      const part = element("div", "chart-stack-part");
      part.style.width = `${(widths[index]! * 100).toFixed(3)}%`;
      part.style.background = slotCss(segment.slot);
      part.title = `${segment.label}: ${segment.text}`;
      track.append(part);
      names.append(stackName(segment));
    });
    track.setAttribute("role", "img");
    track.setAttribute(
      "aria-label",
      next.segments.map(({ label, text }) => `${label} ${text}`).join(", "),
    );
    frame.replaceChildren(track, names);
  };
  update(data);
  return { update, destroy: () => frame.remove() };
}

/** Shares of a whole; negative and unknown values take no room, and the whole is never less than the parts. */
export function stackShares(values: readonly number[], total = 0): number[] {
  const known = values.map((value) => (value > 0 && Number.isFinite(value) ? value : 0));
  const whole = Math.max(
    total,
    known.reduce((sum, value) => sum + value, 0),
  );
  return known.map((value) => (whole > 0 ? value / whole : 0));
}

function emptyBar(): HTMLElement {
  const row = element("div", "chart-bar");
  const track = element("div", "chart-bar-track");
  track.setAttribute("role", "meter");
  track.setAttribute("aria-valuemin", "0");
  track.setAttribute("aria-valuemax", "100");
  track.append(element("div", "chart-bar-fill"));
  row.append(element("span", "chart-bar-label"), track, element("span", "chart-bar-text"));
  return row;
}

function fillBar(row: HTMLElement, bar: Bar): void {
  const [label, track, text] = row.children as unknown as [HTMLElement, HTMLElement, HTMLElement];
  label.textContent = bar.label;
  label.title = bar.label;
  text.textContent = bar.text;
  const percent = bar.share === null ? null : Math.max(0, Math.min(1, bar.share)) * 100;
  row.className = `chart-bar is-${bar.severity ?? "normal"}${percent === null ? " is-unknown" : ""}`;
  (track.firstElementChild as HTMLElement).style.transform =
    `scaleX(${((percent ?? 0) / 100).toFixed(4)})`;
  track.setAttribute("aria-label", bar.label);
  track.setAttribute("aria-valuetext", bar.text);
  if (percent === null) track.removeAttribute("aria-valuenow");
  else track.setAttribute("aria-valuenow", percent.toFixed(0));
}

function stackName({ label, text, slot }: Segment): HTMLElement {
  const name = element("span", "chart-legend-entry");
  const swatch = element("i", "chart-swatch is-square");
  swatch.style.setProperty("--swatch", slotCss(slot));
  name.append(
    swatch,
    element("span", "chart-legend-label", label),
    element("span", "chart-legend-note", text),
  );
  return name;
}
