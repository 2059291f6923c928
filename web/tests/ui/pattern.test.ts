import { readFileSync } from "node:fs";

import { expect, test } from "vitest";

import { compilePattern, PatternError } from "../../src/ui/pattern.ts";

interface Case {
  readonly pattern: string;
  readonly matches?: readonly string[];
  readonly not?: readonly string[];
  readonly refused?: string;
}

/** The server passes the same table (tests/store/test_pattern.py). */
const CASES = JSON.parse(readFileSync(new URL("../../../spec/patterns.json", import.meta.url), "utf-8")) as readonly Case[];

test.each(CASES)("the table of patterns: $pattern", ({ pattern, matches = [], not = [], refused }) => {
  if (refused !== undefined) {
    let caught: unknown;
    try {
      compilePattern(pattern);
    } catch (error) {
      caught = error;
    }
    expect(caught).toBeInstanceOf(PatternError);
    expect(caught).toMatchObject({ message: refused });
    return;
  }
  const isFound = compilePattern(pattern);
  expect(matches.filter((text) => !isFound(text))).toEqual([]);
  expect(not.filter(isFound)).toEqual([]);
});

test.each([".*.*.*.*.*.*.*.*.*.*Z", "(a+)+$", "(a|aa)+$", "(.*a){20}b", "(a?){100}a{100}b"])("%s does not take for ever", (pattern) => {
  expect(compilePattern(pattern)("a".repeat(4000) + "!")).toBe(false);
});
