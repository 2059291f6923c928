/** A name that is cut in its middle where it does not fit: runs of a sweep differ at the end. */

import type { JSX } from "preact";

const MOST_END = 10;

export interface MiddleTextProps {
  readonly text: string;
  /** So many characters at the start are the same in all texts of the list, and left out. */
  readonly numShared?: number;
}

export function MiddleText({ text, numShared = 0 }: MiddleTextProps): JSX.Element {
  const shown = numShared > 0 && numShared < text.length ? `…${text.slice(numShared)}` : text;
  const numEnd = Math.min(MOST_END, Math.floor(shown.length / 2));
  return (
    <span class="middle" title={text} style={{ "--end": `${widthOf(shown.slice(shown.length - numEnd))}px` }}>
      <span class="middle-start">{shown.slice(0, shown.length - numEnd)}</span>
      <span class="middle-end">{shown.slice(shown.length - numEnd)}</span>
    </span>
  );
}

const widths = new Map<string, number>();
let pen: CanvasRenderingContext2D | null = null;
let penAt = -1;

/** How wide a text is in the page's own font, a hair less: where all of it fits, nothing may be cut. */
function widthOf(text: string): number {
  let width = widths.get(text);
  if (width === undefined) {
    pen ??= document.createElement("canvas").getContext("2d")!;
    // Once for each width of the window: asked for every name of a list, it has the styles worked out as often.
    if (penAt !== innerWidth) {
      penAt = innerWidth;
      // Not `font`: with figures of one width it is empty.
      const { fontSize, fontFamily } = getComputedStyle(document.body);
      pen.font = `${fontSize} ${fontFamily}`;
    }
    width = Math.max(0, pen.measureText(text).width - 0.5);
    widths.set(text, width);
  }
  return width;
}

/** How many characters at the start all texts share, up to the end of a word; 0 unless leaving them out saves room. */
export function sharedStart(texts: readonly string[]): number {
  const [first = "", ...others] = texts;
  let count = others.length === 0 ? 0 : first.length;
  for (const text of others) {
    let at = 0;
    while (at < count && text[at] === first[at]) at++;
    count = at;
    if (count < LEAST_SHARED) return 0;
  }
  const words = /^.*[-_/. ]/.exec(first.slice(0, count))?.[0].length ?? 0;
  return words >= LEAST_SHARED ? words : 0;
}

const LEAST_SHARED = 6;
