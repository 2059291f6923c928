/** Content that exists only while it is near the viewport, so that hundreds of charts cost no more than a screenful. */

import type { ComponentChildren, JSX, RefObject } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

import type { LazyQueue } from "../../chart/index.ts";

export interface InViewProps {
  readonly height: number;
  /** Whether the content may be higher; its place then keeps the height that it had. */
  readonly isGrowing?: boolean;
  readonly children: () => ComponentChildren;
}

/** In shares of the height of the window, and of what scrolls in it. Removed farther away than it is created, so that scrolling back and forth creates nothing twice. */
const CREATE_MARGIN = 0.6;
const REMOVE_MARGIN = 1.5;

const places = new Map<Element, (isInView: boolean) => void>();
let observers: readonly IntersectionObserver[] | null = null;

/** One pair of observers for all places: each costs a pass over the layout. */
function observe(place: Element, tell: (isInView: boolean) => void): () => void {
  const watch = (margin: number, isFor: boolean): IntersectionObserver =>
    new IntersectionObserver(
      (entries) => {
        for (const { target, isIntersecting } of entries)
          if (isIntersecting === isFor) places.get(target)?.(isFor);
      },
      { rootMargin: `${margin * 100}% 0px`, scrollMargin: `${margin * 100}% 0px` },
    );
  observers ??= [watch(CREATE_MARGIN, true), watch(REMOVE_MARGIN, false)];
  places.set(place, tell);
  for (const observer of observers) observer.observe(place);
  return () => {
    places.delete(place);
    for (const observer of observers ?? []) observer.unobserve(place);
  };
}

function isNear(place: Element): boolean {
  const { top, bottom } = place.getBoundingClientRect();
  return bottom > -CREATE_MARGIN * innerHeight && top < (1 + CREATE_MARGIN) * innerHeight;
}

export function InView({ height, isGrowing = false, children }: InViewProps): JSX.Element {
  const place = useRef<HTMLDivElement>(null);
  const last = useRef(height);
  const [isInView, setInView] = useState(false);
  // What is in view from the start is created for the first picture: an observer tells of it two pictures later.
  useLayoutEffect(() => {
    if (isNear(place.current!)) setInView(true);
    return observe(place.current!, setInView);
  }, []);
  useLayoutEffect(
    () => () => {
      if (isInView) last.current = place.current?.offsetHeight ?? height;
    },
    [isInView],
  );
  return (
    <div
      ref={place}
      style={
        isGrowing ? { minHeight: `${isInView ? 0 : last.current}px` } : { height: `${height}px` }
      }
    >
      {isInView && children()}
    </div>
  );
}

/** Whether an element has come near the viewport; once it has, this stays true. */
export function useInView(queue: LazyQueue): [RefObject<HTMLDivElement | null>, boolean] {
  const root = useRef<HTMLDivElement>(null);
  const [isInView, setInView] = useState(false);
  useEffect(() => queue.whenNear(root.current!, () => setInView(true)), []);
  return [root, isInView];
}
