/** A place that has its content only while it is near the view: hundreds of charts cost what a screenful does. */

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

export interface NearProps {
  readonly height: number;
  readonly children: () => ComponentChildren;
}

/** Kept a little beyond where it is made, so that scrolling to and fro makes nothing anew. */
const MADE_WITHIN = "60% 0px";
const KEPT_WITHIN = "150% 0px";

export function Near({ height, children }: NearProps): JSX.Element {
  const place = useRef<HTMLDivElement>(null);
  const [isNear, setNear] = useState(false);
  useEffect(() => {
    const watch = (rootMargin: string, isFor: boolean): IntersectionObserver => {
      const observer = new IntersectionObserver(([entry]) => entry?.isIntersecting === isFor && setNear(isFor), { rootMargin });
      observer.observe(place.current!);
      return observer;
    };
    const observers = [watch(MADE_WITHIN, true), watch(KEPT_WITHIN, false)];
    return () => observers.forEach((observer) => observer.disconnect());
  }, []);
  return <div ref={place} style={{ height: `${height}px` }}>{isNear && children()}</div>;
}
