/** A place on the page for something that draws itself: made when it comes near the view, told of changes, taken away. */

import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";

import type { LazyQueue } from "../chart/lazy.ts";

export interface MountProps<Handle extends { destroy(): void }> {
  readonly class?: string;
  readonly height: number | string;
  /** Without a queue it is made at once. */
  readonly queue?: LazyQueue;
  readonly create: (root: HTMLElement) => Handle;
  /** Called after `create` and whenever the surrounding component renders. */
  readonly update: (handle: Handle) => void;
}

export function Mount<Handle extends { destroy(): void }>(props: MountProps<Handle>): JSX.Element {
  const root = useRef<HTMLDivElement>(null);
  const handle = useRef<Handle | null>(null);
  const latest = useRef(props);
  latest.current = props;
  // Part of the first picture, instead of a second one.
  useLayoutEffect(() => {
    const start = (): void => {
      handle.current = latest.current.create(root.current!);
      latest.current.update(handle.current);
    };
    const callOff = props.queue?.whenNear(root.current!, start);
    if (props.queue === undefined) start();
    return () => {
      callOff?.();
      handle.current?.destroy();
      handle.current = null;
    };
  }, []);
  const isFirst = useRef(true);
  useEffect(() => {
    if (!isFirst.current && handle.current !== null) props.update(handle.current);
    isFirst.current = false;
  });
  return (
    <div
      ref={root}
      class={props.class ?? "mount"}
      style={{ height: typeof props.height === "number" ? `${props.height}px` : props.height }}
    />
  );
}
