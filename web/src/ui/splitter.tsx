/** The line between two panes; dragged, or moved with the arrow keys. */

import type { JSX } from "preact";
import { useRef } from "preact/hooks";

export interface SplitterProps {
  readonly label: string;
  /** Size in pixels of the pane before the line. */
  readonly size: number;
  readonly min: number;
  readonly max: number;
  readonly onChange: (size: number) => void;
}

const KEY_STEP_PX = 16;

export function Splitter({ label, size, min, max, onChange }: SplitterProps): JSX.Element {
  const start = useRef<{ readonly x: number; readonly size: number } | null>(null);
  const set = (wanted: number): void => onChange(Math.round(Math.max(min, Math.min(max, wanted))));
  return (
    <div
      class="splitter"
      role="separator"
      aria-orientation="vertical"
      aria-label={label}
      aria-valuenow={size}
      aria-valuemin={min}
      aria-valuemax={max}
      tabIndex={0}
      onPointerDown={(event) => {
        event.preventDefault();
        event.currentTarget.setPointerCapture(event.pointerId);
        start.current = { x: event.clientX, size };
      }}
      onPointerMove={(event) =>
        start.current !== null && set(start.current.size + event.clientX - start.current.x)
      }
      onPointerUp={() => (start.current = null)}
      onPointerCancel={() => (start.current = null)}
      onKeyDown={(event) => {
        const direction = event.key === "ArrowLeft" ? -1 : event.key === "ArrowRight" ? 1 : 0;
        if (direction === 0) return;
        event.preventDefault();
        set(size + direction * KEY_STEP_PX);
      }}
    />
  );
}
