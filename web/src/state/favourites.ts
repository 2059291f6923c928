/** Favourite metrics: in the address, and kept by this browser for addresses that name none. */

import { effect } from "@preact/signals";

import type { View } from "./view.ts";

const KEY = "epochal favourites";

export function keepFavourites(view: View, storage: Storage | null = storageOf()): void {
  if (storage === null) return;
  if (view.pinned.peek().length === 0) view.pinned.value = read(storage);
  let before = view.pinned.peek();
  effect(() => {
    const { value } = view.pinned;
    if (value === before) return;
    before = value;
    storage.setItem(KEY, JSON.stringify(value));
  });
}

function read(storage: Storage): readonly string[] {
  const found: unknown = JSON.parse(storage.getItem(KEY) ?? "[]");
  return Array.isArray(found) ? found.filter((one) => typeof one === "string") : [];
}

/** A file that is opened from disk may have no storage. */
function storageOf(): Storage | null {
  try {
    return window.localStorage;
  } catch (error) {
    if (!(error instanceof DOMException)) throw error;
    return null;
  }
}
