/** What a search box means: plain words that all must occur, or a regular expression. Case counts for neither. */

import { compilePattern, PatternError } from "./pattern.ts";

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
    return { matches: remembered(withAnyCase(query)), error: null };
  } catch (error) {
    if (!(error instanceof PatternError)) throw error;
    return { ...EVERYTHING, error: `${error.message}.` };
  }
}

/** The query that asks the server for the runs in which a regular expression is found, in the texts of the search box or in one field. */
export function patternQuery(query: string, field = "text"): string {
  return `${field} ~ ${quoted(withAnyCase(query))}`;
}

/** A text of the query language. */
export function quoted(text: string): string {
  return `"${text.replace(/[\\"]/g, "\\$&")}"`;
}

/** The query that asks the server for the runs in which all words occur; empty without any. */
export function wordsQuery(text: string): string {
  const words = text.split(/\s+/).filter((word) => word !== "");
  return words.map((word) => patternQuery(plainPattern(word))).join(" and ");
}

/** The regular expression that finds a text as it stands. */
export function plainPattern(text: string): string {
  return text.replace(/[^\w-]/gu, escaped);
}

function escaped(character: string): string {
  return /[\x20-\x7e]/.test(character) ? `\\x${character.charCodeAt(0).toString(16)}` : character;
}

function withAnyCase(pattern: string): string {
  return pattern.startsWith("(?i)") ? pattern : `(?i)${pattern}`;
}

/** A box is drawn often, and its pattern and its texts are mostly those of the last time. */
const MOST_REMEMBERED = 20_000;
let last: { readonly pattern: string; readonly matches: (text: string) => boolean } | null = null;

function remembered(pattern: string): (text: string) => boolean {
  if (last?.pattern === pattern) return last.matches;
  const isFound = compilePattern(pattern);
  const known = new Map<string, boolean>();
  const matches = (text: string): boolean => {
    const before = known.get(text);
    if (before !== undefined) return before;
    if (known.size >= MOST_REMEMBERED) known.clear();
    const answer = isFound(text);
    known.set(text, answer);
    return answer;
  };
  last = { pattern, matches };
  return matches;
}
