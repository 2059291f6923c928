/** Dragging things onto each other: beside another, or into it. */

import type { HTMLAttributes } from "preact";
import { useState } from "preact/hooks";

export type Hint = "before" | "join" | "after";

interface Drag<Key> {
  readonly from: Key;
  /** What the pointer is over, and what would happen there. */
  readonly over: Key | null;
  readonly hint: Hint | null;
}

type Handlers = Pick<
  HTMLAttributes<HTMLElement>,
  "draggable" | "onDragStart" | "onDragEnd" | "onDragOver" | "onDragLeave" | "onDrop"
>;
/** Attributes of what is taken hold of, or of what something is dropped on. */
export type Attributes = Handlers & { readonly "data-drop"?: Hint | undefined };

/** The edges of a thing mean beside it; so large a share of its width each. */
const EDGE = 0.25;

/** `hints` are what may happen to one thing when it is dropped on another, from left to right. */
export function useDrag<Key>(
  hints: (from: Key, over: Key) => readonly Hint[],
  onDrop: (from: Key, over: Key, hint: Hint) => void,
): { handle(key: Key): Attributes; target(key: Key): Attributes } {
  const [drag, setDrag] = useState<Drag<Key> | null>(null);
  return {
    handle: (key) => ({
      draggable: true,
      onDragStart: ({ dataTransfer }) => {
        // Firefox drags nothing without data.
        dataTransfer!.setData("text/plain", "");
        dataTransfer!.effectAllowed = "move";
        setDrag({ from: key, over: null, hint: null });
      },
      onDragEnd: () => setDrag(null),
    }),
    target: (key) => ({
      "data-drop": drag !== null && drag.over === key ? (drag.hint ?? undefined) : undefined,
      onDragOver: (event) => {
        if (drag === null || drag.from === key) return;
        event.preventDefault();
        const { left, width } = event.currentTarget.getBoundingClientRect();
        const hint = hintAt((event.clientX - left) / width, hints(drag.from, key));
        if (drag.over !== key || drag.hint !== hint) setDrag({ ...drag, over: key, hint });
      },
      onDragLeave: (event) => {
        if (drag?.over === key && !event.currentTarget.contains(event.relatedTarget as Node | null))
          setDrag({ ...drag, over: null, hint: null });
      },
      onDrop: (event) => {
        if (drag === null || drag.hint === null) return;
        event.preventDefault();
        setDrag(null);
        onDrop(drag.from, key, drag.hint);
      },
    }),
  };
}

/** What a place means, as a share of the width: an edge, the middle, or the nearer of two halves. */
export function hintAt(share: number, hints: readonly Hint[]): Hint {
  if (hints.length < 3)
    return hints[Math.min(hints.length - 1, Math.floor(Math.max(0, share) * hints.length))]!;
  return hints[share < EDGE ? 0 : share > 1 - EDGE ? 2 : 1]!;
}
