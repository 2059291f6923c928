/** What a search box means: words that all must occur, in any case; `*` stands for any characters. The server matches regular expressions. */

export function compileFilter(query: string): (text: string) => boolean {
  const words = query.toLowerCase().split(/\s+/).map((word) => word.split("*"));
  return (text) => {
    const lower = text.toLowerCase();
    return words.every((parts) => occurInOrder(parts, lower));
  };
}

function occurInOrder(parts: readonly string[], text: string): boolean {
  let at = 0;
  return parts.every((part) => {
    const found = text.indexOf(part, at);
    at = found + part.length;
    return found >= 0;
  });
}

/** The query that asks the server for the runs in which a regular expression is found, in the texts of the search box or in one field. */
export function patternQuery(query: string, field = "text"): string {
  return `${field} ~ ${quoted(withAnyCase(query))}`;
}

/** A text of the query language. */
export function quoted(text: string): string {
  return `"${text.replace(/[\\"]/g, "\\$&")}"`;
}

/** The query that asks the server for the runs in which all words occur, as in a search box; empty without any. */
export function wordsQuery(text: string): string {
  const words = text.split(/\s+/).filter((word) => word !== "");
  return words.map((word) => patternQuery(word.split("*").map(plainPattern).join(".*"))).join(" and ");
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
