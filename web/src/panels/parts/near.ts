/** Whether an element has come near the view; once it has, it stays so. */

import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

import type { LazyQueue } from "../../chart/index.ts";

export function useNear(queue: LazyQueue): [RefObject<HTMLDivElement | null>, boolean] {
  const root = useRef<HTMLDivElement>(null);
  const [isNear, setNear] = useState(false);
  useEffect(() => queue.whenNear(root.current!, () => setNear(true)), []);
  return [root, isNear];
}
