/** Which rows of a long list are in view. */

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

export function windowOf({ scrollTop, viewHeight, rowHeight, count, overscan }: WindowRequest): RowWindow {
  const first = Math.floor(Math.max(0, scrollTop) / rowHeight) - overscan;
  const last = Math.ceil((Math.max(0, scrollTop) + viewHeight) / rowHeight) + overscan;
  const start = Math.max(0, Math.min(first, count));
  return { start, stop: Math.max(start, Math.min(last, count)) };
}

/** Where to scroll so that a row is wholly in view; the present place if it is already. */
export function scrollFor(index: number, { scrollTop, viewHeight, rowHeight }: Omit<WindowRequest, "count" | "overscan">): number {
  const top = index * rowHeight;
  if (top < scrollTop) return top;
  return top + rowHeight > scrollTop + viewHeight ? top + rowHeight - viewHeight : scrollTop;
}
