/** Dragging things onto each other: beside another, or into it. */

import { useState } from "preact/hooks";

export type Hint = "before" | "join" | "after";

interface Drag<Key> {
  readonly from: Key;
  /** What the pointer is over, and what would happen there. */
  readonly over: Key | null;
  readonly hint: Hint | null;
}

export interface DragOptions<Key> {
  /** What may happen to one when it is dropped on another, from left to right. */
  readonly hints: (from: Key, over: Key) => readonly Hint[];
  readonly onDrop: (from: Key, over: Key, hint: Hint) => void;
}

/** Attributes of what is taken hold of. */
export interface Handle {
  readonly draggable: true;
  readonly onDragStart: (event: DragEvent) => void;
  readonly onDragEnd: () => void;
}

/** Attributes of what something is dropped on. */
export interface Target {
  readonly "data-drop": Hint | undefined;
  readonly onDragOver: (event: DragEvent) => void;
  readonly onDragLeave: (event: DragEvent) => void;
  readonly onDrop: (event: DragEvent) => void;
}

interface Draggable<Key> {
  handle(key: Key): Handle;
  target(key: Key): Target;
}

/** The edges of a thing mean beside it; so large a share of its width each. */
const EDGE = 0.25;

export function useDrag<Key>({ hints, onDrop }: DragOptions<Key>): Draggable<Key> {
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
        const { left, width } = (event.currentTarget as HTMLElement).getBoundingClientRect();
        const hint = hintAt((event.clientX - left) / width, hints(drag.from, key));
        if (drag.over !== key || drag.hint !== hint) setDrag({ ...drag, over: key, hint });
      },
      onDragLeave: (event) => {
        if (drag?.over === key && !(event.currentTarget as HTMLElement).contains(event.relatedTarget as Node | null)) setDrag({ ...drag, over: null, hint: null });
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
  if (hints.length < 3) return hints[Math.min(hints.length - 1, Math.floor(Math.max(0, share) * hints.length))]!;
  return hints[share < EDGE ? 0 : share > 1 - EDGE ? 2 : 1]!;
}
