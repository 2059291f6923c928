/** A word of explanation on hover and on focus. */

import type { ComponentChildren, JSX } from "preact";
import { useId, useLayoutEffect, useRef, useState } from "preact/hooks";

const DELAY_MS = 350;
const EDGE_PX = 6;

export function Tip({ text, children }: { readonly text: string; readonly children: ComponentChildren }): JSX.Element {
  const id = useId();
  const anchor = useRef<HTMLSpanElement>(null);
  const box = useRef<HTMLSpanElement>(null);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const [isShown, setShown] = useState(false);
  const show = (delayMs: number): void => {
    clearTimeout(timer.current);
    timer.current = setTimeout(() => setShown(true), delayMs);
  };
  const hide = (): void => {
    clearTimeout(timer.current);
    setShown(false);
  };
  useLayoutEffect(() => () => clearTimeout(timer.current), []);
  useLayoutEffect(() => {
    if (isShown) place(box.current!, anchor.current!);
  }, [isShown]);
  return (
    <span ref={anchor} class="tip-anchor" aria-describedby={isShown ? id : undefined}
      onPointerEnter={() => show(DELAY_MS)} onPointerLeave={hide} onFocusIn={() => show(0)} onFocusOut={hide}
      onKeyDown={(event) => event.key === "Escape" && hide()}>
      {children}
      {isShown && <span ref={box} id={id} role="tooltip" class="tip">{text}</span>}
    </span>
  );
}

function place(box: HTMLElement, anchor: HTMLElement): void {
  const at = anchor.getBoundingClientRect();
  const middle = at.left + at.width / 2 - box.offsetWidth / 2;
  const left = Math.max(EDGE_PX, Math.min(middle, document.documentElement.clientWidth - box.offsetWidth - EDGE_PX));
  const above = at.top - box.offsetHeight - EDGE_PX;
  box.style.left = `${left}px`;
  box.style.top = `${above < EDGE_PX ? at.bottom + EDGE_PX : above}px`;
}
