/** Content that exists only while it is near the viewport, so that hundreds of charts cost no more than a screenful. */

import type { ComponentChildren, JSX, RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

import type { LazyQueue } from "../../chart/index.ts";

export interface InViewProps {
  readonly height: number;
  readonly children: () => ComponentChildren;
}

/** Removed farther away than it is created, so that scrolling back and forth creates nothing twice. */
const CREATE_MARGIN = "60% 0px";
const REMOVE_MARGIN = "150% 0px";

export function InView({ height, children }: InViewProps): JSX.Element {
  const place = useRef<HTMLDivElement>(null);
  const [isInView, setInView] = useState(false);
  useEffect(() => {
    const watch = (rootMargin: string, isFor: boolean): IntersectionObserver => {
      const observer = new IntersectionObserver(([entry]) => entry?.isIntersecting === isFor && setInView(isFor), { rootMargin });
      observer.observe(place.current!);
      return observer;
    };
    const observers = [watch(CREATE_MARGIN, true), watch(REMOVE_MARGIN, false)];
    return () => observers.forEach((observer) => observer.disconnect());
  }, []);
  return <div ref={place} style={{ height: `${height}px` }}>{isInView && children()}</div>;
}

/** Whether an element has come near the viewport; once it has, this stays true. */
export function useInView(queue: LazyQueue): [RefObject<HTMLDivElement | null>, boolean] {
  const root = useRef<HTMLDivElement>(null);
  const [isInView, setInView] = useState(false);
  useEffect(() => queue.whenNear(root.current!, () => setInView(true)), []);
  return [root, isInView];
}
