/** A list of any length that only has the rows in view on the page. */

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

import { scrollFor, useScrollView, windowOf } from "./window.ts";

export interface VirtualListProps {
  readonly count: number;
  readonly rowHeight: number;
  readonly label: string;
  /** Brought into view whenever it changes. */
  readonly activeIndex?: number;
  /** The only row that may be higher than the others. */
  readonly tallIndex?: number;
  readonly row: (index: number) => ComponentChildren;
  readonly keyOf?: (index: number) => string;
  /** Told which rows are in view. */
  readonly onWindow?: (start: number, stop: number) => void;
}

const OVERSCAN = 8;

export function VirtualList({
  count,
  rowHeight,
  label,
  activeIndex,
  tallIndex = -1,
  row,
  keyOf = String,
  onWindow,
}: VirtualListProps): JSX.Element {
  const frame = useRef<HTMLDivElement>(null);
  const tall = useRef<HTMLDivElement>(null);
  const [extra, setExtra] = useState(0);
  const view = useScrollView(frame);
  const above = tallIndex >= 0 && tallIndex * rowHeight < view.scrollTop ? extra : 0;
  const { start, stop } = windowOf({
    ...view,
    scrollTop: view.scrollTop - above,
    rowHeight,
    count,
    overscan: OVERSCAN,
  });
  const tallKey = tallIndex < 0 ? "" : keyOf(tallIndex);
  const isTallHere = start <= tallIndex && tallIndex < stop;
  useLayoutEffect(() => {
    if (tallIndex < 0) setExtra(0);
    if (!isTallHere) return undefined;
    const resized = new ResizeObserver(() => setExtra(tall.current!.offsetHeight - rowHeight));
    setExtra(tall.current!.offsetHeight - rowHeight);
    resized.observe(tall.current!);
    return () => resized.disconnect();
  }, [tallKey, isTallHere, rowHeight]);
  useLayoutEffect(() => {
    const element = frame.current!;
    if (activeIndex === undefined || activeIndex < 0) return;
    element.scrollTop = scrollFor(activeIndex, {
      scrollTop: element.scrollTop,
      viewHeight: element.clientHeight,
      rowHeight,
    });
  }, [activeIndex, rowHeight]);
  useEffect(() => onWindow?.(start, stop), [start, stop, count, onWindow]);
  const topOf = (index: number): number =>
    index * rowHeight + (tallIndex >= 0 && index > tallIndex ? extra : 0);
  const rows: JSX.Element[] = [];
  for (let index = start; index < stop; index++) {
    const isTall = index === tallIndex;
    rows.push(
      <div
        key={keyOf(index)}
        ref={isTall ? tall : null}
        role="listitem"
        class="list-row"
        aria-setsize={count}
        aria-posinset={index + 1}
        style={{
          height: isTall ? "auto" : `${rowHeight}px`,
          transform: `translateY(${topOf(index)}px)`,
        }}
      >
        {row(index)}
      </div>,
    );
  }
  return (
    <div ref={frame} class="list" role="list" aria-label={label} tabIndex={0}>
      <div class="list-space" style={{ height: `${topOf(count)}px` }}>
        {rows}
      </div>
    </div>
  );
}
