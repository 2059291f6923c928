import type { BrowserContext } from "playwright-core";

type ContextOptions = NonNullable<Parameters<import("playwright-core").BrowserType["launchPersistentContext"]>[1]>;

export function openBrowser(options?: ContextOptions & { readonly flags?: readonly string[] }): Promise<{
  readonly browser: BrowserContext;
  close(): Promise<void>;
}>;
export function serve(): Promise<{ readonly address: string; close(): Promise<void> }>;
