import { expect, test } from "vitest";

import { differences } from "../../src/panels/text-diff.ts";

function marked(base: string, text: string): string {
  return differences(base, text)
    .map(({ text: words, isNew }) => (isNew ? `[${words}]` : words))
    .join("");
}

test("the same text has no marks", () => {
  expect(marked("a b", "a b")).toBe("a b");
});

test("a word that was put in is marked, with the text kept whole", () => {
  expect(marked("the cat sat", "the big cat sat")).toBe("the [big] cat sat");
});

test("a word in place of another is marked", () => {
  expect(marked("at step 349: done", "at step 399: done")).toBe("at step [399]: done");
});

test("what was taken out leaves no trace", () => {
  expect(marked("one two three", "one three")).toBe("one three");
});

test("the pieces of any pair make up the text", () => {
  const text = "größer\n  你好, wörld! <b>x</b>";
  expect(
    differences("größe 你好", text)
      .map((piece) => piece.text)
      .join(""),
  ).toBe(text);
});

test("texts too long to compare are shown as they are", () => {
  const text = "word ".repeat(3000);
  expect(differences("other ".repeat(3000), text)).toEqual([{ text, isNew: false }]);
});
