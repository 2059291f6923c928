/** What this browser keeps between visits; nothing where it allows no storage, as in a frame without cookies. */

export function stored(key: string): string | null {
  try {
    return localStorage.getItem(`epochal ${key}`);
  } catch (error) {
    if (!(error instanceof DOMException)) throw error;
    return null;
  }
}

export function store(key: string, value: string): void {
  try {
    localStorage.setItem(`epochal ${key}`, value);
  } catch (error) {
    if (!(error instanceof DOMException)) throw error;
  }
}
