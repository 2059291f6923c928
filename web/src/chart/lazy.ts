/** Work that waits until its place on the page comes into view. */

export interface LazyQueue {
  /** Call `create` once, when the element comes within a screen of the view; returns the function that calls it off. */
  whenNear(element: Element, create: () => void): () => void;
  destroy(): void;
}

/** One observer for many elements: fifty of them each cost a pass over the layout. */
export function createLazyQueue(margin = "50% 0px"): LazyQueue {
  const waiting = new Map<Element, () => void>();
  const observer = new IntersectionObserver(
    (entries) => {
      for (const { target, isIntersecting } of entries) {
        const create = waiting.get(target);
        if (!isIntersecting || create === undefined) continue;
        waiting.delete(target);
        observer.unobserve(target);
        create();
      }
    },
    { rootMargin: margin },
  );
  return {
    whenNear(element, create) {
      waiting.set(element, create);
      observer.observe(element);
      return () => {
        waiting.delete(element);
        observer.unobserve(element);
      };
    },
    destroy() {
      waiting.clear();
      observer.disconnect();
    },
  };
}
