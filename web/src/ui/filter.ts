/** What a search box means: plain words that all must occur, or a regular expression. Case counts for neither. */

export interface Filter {
  matches(text: string): boolean;
  /** What is wrong with the expression; then everything matches. */
  readonly error: string | null;
}

const EVERYTHING: Filter = { matches: () => true, error: null };

export function compileFilter(query: string, isRegex: boolean): Filter {
  if (query.trim() === "") return EVERYTHING;
  if (!isRegex) {
    const words = query.toLowerCase().split(/\s+/).filter((word) => word !== "");
    return { matches: (text) => words.every((word) => text.toLowerCase().includes(word)), error: null };
  }
  try {
    const expression = new RegExp(query, "i");
    return { matches: (text) => expression.test(text), error: null };
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    return { ...EVERYTHING, error: error.message.replace(/^Invalid regular expression: /, "") };
  }
}
