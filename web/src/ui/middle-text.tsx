/** A name that is cut in its middle where it does not fit: runs of a sweep differ at the end. */

import type { JSX } from "preact";

const MOST_END = 10;

export function MiddleText({ text }: { readonly text: string }): JSX.Element {
  const at = text.length - Math.min(MOST_END, Math.floor(text.length / 2));
  return (
    <span class="middle" title={text}>
      <span>{text.slice(0, at)}</span>
      <span>{text.slice(at)}</span>
    </span>
  );
}
