/** Which rows of a long list are in view. */

import type { RefObject } from "preact";
import { useLayoutEffect, useState } from "preact/hooks";

export interface RowWindow {
  readonly start: number;
  readonly stop: number;
}

export interface WindowRequest {
  readonly scrollTop: number;
  readonly viewHeight: number;
  readonly rowHeight: number;
  readonly count: number;
  /** Rows kept ready beyond each edge. */
  readonly overscan: number;
}

export function windowOf({
  scrollTop,
  viewHeight,
  rowHeight,
  count,
  overscan,
}: WindowRequest): RowWindow {
  const first = Math.floor(Math.max(0, scrollTop) / rowHeight) - overscan;
  const last = Math.ceil((Math.max(0, scrollTop) + viewHeight) / rowHeight) + overscan;
  const start = Math.max(0, Math.min(first, count));
  return { start, stop: Math.max(start, Math.min(last, count)) };
}

/** Where to scroll so that a row is wholly in view; the present place if it is already. */
export function scrollFor(
  index: number,
  { scrollTop, viewHeight, rowHeight }: Omit<WindowRequest, "count" | "overscan">,
): number {
  const top = index * rowHeight;
  if (top < scrollTop) return top;
  return top + rowHeight > scrollTop + viewHeight ? top + rowHeight - viewHeight : scrollTop;
}

export interface ScrollView {
  readonly scrollTop: number;
  readonly viewHeight: number;
}

/** The visible part of a scrolling element. */
export function useScrollView(frame: RefObject<HTMLElement | null>): ScrollView {
  const [view, setView] = useState<ScrollView>({ scrollTop: 0, viewHeight: 600 });
  useLayoutEffect(() => {
    const element = frame.current!;
    const read = (): void =>
      setView({ scrollTop: element.scrollTop, viewHeight: element.clientHeight });
    const resized = new ResizeObserver(read);
    resized.observe(element);
    element.addEventListener("scroll", read, { passive: true });
    return () => {
      resized.disconnect();
      element.removeEventListener("scroll", read);
    };
  }, []);
  return view;
}
