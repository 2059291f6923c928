/** What a search box means: words and "quoted phrases" that all must occur, in any case; `*` stands for any characters. The server matches regular expressions. */

export function compileFilter(query: string): (text: string) => boolean {
  const tests = (query.toLowerCase().match(/"[^"]+"|\S+/g) ?? []).map(
    (word): ((text: string) => boolean) => {
      if (/^"[^"]+"$/.test(word)) {
        // A number in quotes is no part of a longer one.
        const phrase = new RegExp(
          `(?<!\\d\\.?(?=\\d))${plainPattern(word.slice(1, -1))}(?!(?<=\\d)\\.?\\d)`,
          "u",
        );
        return (text) => phrase.test(text);
      }
      const parts = word.split("*");
      return (text) => occurInOrder(parts, text);
    },
  );
  return (text) => {
    const lower = text.toLowerCase();
    return tests.every((test) => test(lower));
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

/** Whether a filter of runs is a query rather than words: it compares something, or begins to name a field. */
export function isQuery(text: string): boolean {
  return /[<>~]|[=!]=|\s=\s|\bin\s+(\[|tags\b)|^\s*(not\s+|\()*((config|summary|best)\.|exists\(|hidden$)/.test(
    text,
  );
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
  return words
    .map((word) => patternQuery(word.split("*").map(plainPattern).join(".*")))
    .join(" and ");
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
