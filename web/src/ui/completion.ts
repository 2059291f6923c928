/** Completion of field names in a query, at the caret. */

const WORD = /[\w./@:"-]*$/;

/** Where the word before the caret begins; -1 inside a text in quotes that is no part of a field. */
function startOf(text: string, caret: number): number {
  const before = text.slice(0, caret);
  return before.length - (WORD.exec(before)?.[0].length ?? 0);
}

/** The fields that the word before the caret may become: those that begin with it first, then those that contain it. */
export function completionsOf(
  text: string,
  caret: number,
  fields: readonly string[],
): readonly string[] {
  const word = text.slice(startOf(text, caret), caret).toLowerCase();
  if (word === "" || /^["\d]/.test(word)) return [];
  const inside = fields.filter(
    (field) => field.toLowerCase().includes(word) && field.toLowerCase() !== word,
  );
  return inside.toSorted(
    (one, other) =>
      Number(other.toLowerCase().startsWith(word)) - Number(one.toLowerCase().startsWith(word)),
  );
}

/** The query with the word before the caret replaced by a field. */
export function completed(
  text: string,
  caret: number,
  field: string,
): { readonly text: string; readonly caret: number } {
  const start = startOf(text, caret);
  const after = text.slice(caret);
  const space = after.startsWith(" ") ? "" : " ";
  return {
    text: `${text.slice(0, start)}${field}${space}${after}`,
    caret: start + field.length + 1,
  };
}
