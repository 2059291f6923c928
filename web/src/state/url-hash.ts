/** The URL after `#`: the parts of the view that differ from the default, so that a link restores a view. */

/** One thing of the view and how it is written. */
export interface Field<Value> {
  readonly key: string;
  readonly initial: Value;
  /** Null for a text that means nothing here; then the initial value stands. */
  readonly parse: (text: string) => Value | null;
  readonly write: (value: Value) => string;
}

export function textField(key: string, initial = ""): Field<string> {
  return { key, initial, parse: (text) => text, write: (value) => value };
}

export function optionalField(key: string): Field<string | null> {
  return { key, initial: null, parse: (text) => text, write: (value) => value ?? "" };
}

export function choiceField<Value extends string>(
  key: string,
  choices: readonly Value[],
  initial: Value,
): Field<Value> {
  return {
    key,
    initial,
    parse: (text) => choices.find((choice) => choice === text) ?? null,
    write: (value) => value,
  };
}

export function flagField(key: string): Field<boolean> {
  return {
    key,
    initial: false,
    parse: (text) => text === "1",
    write: (value) => (value ? "1" : "0"),
  };
}

/** Names one after the other; a comma inside a name is escaped once more than the address does by itself. */
export function namesField(key: string): Field<readonly string[]> {
  return { key, initial: [], parse: parseNames, write: writeNames };
}

export function optionalNamesField(key: string): Field<readonly string[] | null> {
  return { key, initial: null, parse: parseNames, write: (value) => writeNames(value ?? []) };
}

export function parseHash(hash: string): ReadonlyMap<string, string> {
  return new Map(new URLSearchParams(hash.replace(/^#/, "")));
}

export function formatHash(texts: ReadonlyMap<string, string>): string {
  const written = new URLSearchParams(
    [...texts].sort(([one], [other]) => (one < other ? -1 : 1)),
  ).toString();
  // These are harmless after a #, and an address full of %2F cannot be read.
  return written.replace(/%2F/g, "/").replace(/%2C/g, ",").replace(/%3A/g, ":");
}

function parseNames(text: string): readonly string[] {
  return text === ""
    ? []
    : text.split(",").map((name) => name.replace(/%2C/g, ",").replace(/%25/g, "%"));
}

function writeNames(names: readonly string[]): string {
  return names.map((name) => name.replace(/%/g, "%25").replace(/,/g, "%2C")).join(",");
}
