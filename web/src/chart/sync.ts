/** One crosshair shared by several charts: whoever hovers publishes the x value, the others follow. */

export interface Crosshair {
  readonly origin: symbol;
  /** The x value under the pointer; null when it has left. */
  readonly x: number | null;
}

export interface SyncBus {
  publish(crosshair: Crosshair): void;
  /** Returns the function that ends the subscription. */
  subscribe(listener: (crosshair: Crosshair) => void): () => void;
}

export function createSyncBus(): SyncBus {
  const listeners = new Set<(crosshair: Crosshair) => void>();
  return {
    publish(crosshair) {
      for (const listener of [...listeners]) listener(crosshair);
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}
