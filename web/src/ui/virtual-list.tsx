/** A list of any length that only has the rows in view on the page. */

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";

import { scrollFor, useScrollView, windowOf } from "./window.ts";

export interface VirtualListProps {
  readonly count: number;
  readonly rowHeight: number;
  readonly label: string;
  /** Brought into view whenever it changes. */
  readonly activeIndex?: number;
  readonly row: (index: number) => ComponentChildren;
  readonly keyOf?: (index: number) => string;
  /** Told which rows are in view. */
  readonly onWindow?: (start: number, stop: number) => void;
}

const OVERSCAN = 8;

export function VirtualList({ count, rowHeight, label, activeIndex, row, keyOf = String, onWindow }: VirtualListProps): JSX.Element {
  const frame = useRef<HTMLDivElement>(null);
  const view = useScrollView(frame);
  useLayoutEffect(() => {
    const element = frame.current!;
    if (activeIndex === undefined || activeIndex < 0) return;
    element.scrollTop = scrollFor(activeIndex, { scrollTop: element.scrollTop, viewHeight: element.clientHeight, rowHeight });
  }, [activeIndex, rowHeight]);

  const { start, stop } = windowOf({ ...view, rowHeight, count, overscan: OVERSCAN });
  useEffect(() => onWindow?.(start, stop), [start, stop, count, onWindow]);
  const rows: JSX.Element[] = [];
  for (let index = start; index < stop; index++) {
    rows.push(
      <div key={keyOf(index)} role="listitem" class="list-row" aria-setsize={count} aria-posinset={index + 1}
        style={{ height: `${rowHeight}px`, transform: `translateY(${index * rowHeight}px)` }}>
        {row(index)}
      </div>,
    );
  }
  return (
    <div ref={frame} class="list" role="list" aria-label={label} tabIndex={0}>
      <div class="list-space" style={{ height: `${count * rowHeight}px` }}>{rows}</div>
    </div>
  );
}
