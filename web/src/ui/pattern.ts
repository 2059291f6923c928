/**
 * Regular expressions in time linear in the text, with the rules of the server (`store/pattern.py`): the same pattern finds the same texts, and none
 * freezes the page. The browser's own engine goes back and tries again, which can take for ever. `spec/patterns.json` tests both.
 */

export const MAX_PATTERN = 200;
export const MAX_TEXT = 4096;
const MAX_SIZE = 1000;
const ANY_CASE = "(?i)";
const WORD: readonly Range[] = [[0x30, 0x39], [0x41, 0x5a], [0x5f, 0x5f], [0x61, 0x7a]];
const CLASSES: Readonly<Record<string, readonly Range[]>> = {
  d: [[0x30, 0x39]],
  w: WORD,
  s: [[0x09, 0x0a], [0x0c, 0x0d], [0x20, 0x20]],
};
const CONTROLS: Readonly<Record<string, number>> = { t: 9, n: 10, v: 11, f: 12, r: 13 };
const LOOKING = "a pattern cannot look ahead or behind: join two conditions with 'and', the second with !~ for what must not occur";

type Range = readonly [low: number, high: number];
/** Ranges of characters, or all that are in none of them. */
interface CharacterSet {
  readonly ranges: readonly Range[];
  readonly isNegated: boolean;
}
type Assertion = "^" | "$" | "b" | "B";
type Node =
  | { readonly type: "set"; readonly sets: readonly CharacterSet[]; readonly isNegated: boolean }
  | { readonly type: "assert"; readonly kind: Assertion }
  | { readonly type: "sequence"; readonly nodes: readonly Node[] }
  | { readonly type: "choice"; readonly nodes: readonly Node[] }
  | { readonly type: "repeat"; readonly node: Node; readonly least: number; readonly most: number };
type Step =
  | { readonly type: "set"; readonly has: (code: number) => boolean }
  | { readonly type: "assert"; readonly kind: Assertion }
  | { readonly type: "split"; to: number; or: number }
  | { readonly type: "found" };

/** What is wrong with a pattern, and at which character. */
export class PatternError extends Error {
  readonly at: number;

  constructor(sentence: string, at = 0) {
    super(sentence);
    this.name = "PatternError";
    this.at = at;
  }
}

/** Whether a pattern is found anywhere in a text; throws a `PatternError` for what is no pattern. */
export function compilePattern(text: string): (text: string) => boolean {
  const characters = [...text];
  if (characters.length > MAX_PATTERN) throw new PatternError(`a pattern has at most ${MAX_PATTERN} characters`);
  const isAnyCase = text.startsWith(ANY_CASE);
  const steps: Step[] = [];
  emit(new Parser(characters, isAnyCase ? ANY_CASE.length : 0).whole(), steps, isAnyCase);
  steps.push({ type: "found" });
  return (searched) => isFound(steps, searched);
}

class Parser {
  readonly #text: readonly string[];
  #at: number;
  /** How long what was parsed is with its repeats written out; a group's begins at 0. */
  #size = 0;

  constructor(text: readonly string[], at: number) {
    this.#text = text;
    this.#at = at;
  }

  whole(): Node {
    const node = this.#choice(null);
    if (this.#at < this.#text.length) throw new PatternError("there is no ( for this )", this.#at);
    return node;
  }

  #choice(opened: number | null): Node {
    const options: Node[][] = [[]];
    for (;;) {
      const character = this.#text[this.#at];
      if (character === undefined && opened !== null) throw new PatternError("expected a closing )", opened);
      if (character === undefined || character === ")") break;
      if (character === "|") {
        this.#at++;
        options.push([]);
      } else {
        options.at(-1)!.push(this.#item(character));
      }
      if (this.#size > MAX_SIZE) throw new PatternError(`a pattern has at most ${MAX_SIZE} characters with its repeats written out`, this.#at);
    }
    return { type: "choice", nodes: options.map((nodes) => ({ type: "sequence", nodes })) };
  }

  #item(character: string): Node {
    if ("*+?{".includes(character)) this.#repeats(0);
    const before = this.#size;
    const node = this.#atom(character);
    if (node.type === "assert") return node;
    return this.#repeated(node, this.#size - before);
  }

  #atom(character: string): Node {
    const at = this.#at;
    if (character === "(") return this.#group(at);
    if (character === "^" || character === "$") {
      this.#at++;
      return { type: "assert", kind: character };
    }
    const next = this.#text[at + 1];
    if (character === "\\" && (next === "b" || next === "B")) {
      this.#at += 2;
      return { type: "assert", kind: next };
    }
    this.#size++;
    if (character === "[") return this.#set(at);
    if (character === "\\") return { type: "set", sets: [this.#escape()], isNegated: false };
    this.#at++;
    if (character === ".") return { type: "set", sets: [{ ranges: [[0x0a, 0x0a]], isNegated: true }], isNegated: false };
    return { type: "set", sets: [one(character.codePointAt(0)!)], isNegated: false };
  }

  #group(at: number): Node {
    const start = this.#text.slice(at, at + 3).join("");
    if (/^\(\?[=!<]/.test(start)) throw new PatternError(LOOKING, at);
    if (start.startsWith("(?") && start !== "(?:") throw new PatternError("after (? only : is known, and (?i) at the start", at);
    this.#at += start === "(?:" ? 3 : 1;
    const outer = this.#size;
    this.#size = 0;
    const node = this.#choice(at);
    this.#at++;
    this.#size = outer + Math.max(this.#size, 1);
    return node;
  }

  #repeated(node: Node, size: number): Node {
    const character = this.#text[this.#at];
    if (character === undefined || !"*+?{".includes(character)) return node;
    const [least, most] = this.#repeats(size);
    const times = Math.max(most === Infinity ? least : most, 1);
    this.#size += size * (character === "{" ? times - 1 : 0);
    if (this.#text[this.#at] === "?") this.#at++;
    // A second repeat has nothing to repeat.
    const following = this.#text[this.#at];
    if (this.#size <= MAX_SIZE && following !== undefined && "*+?{".includes(following)) this.#repeats(0);
    return { type: "repeat", node, least, most };
  }

  /** How often; `size` is that of what is repeated, 0 for nothing. */
  #repeats(size: number): readonly [number, number] {
    const at = this.#at;
    const character = this.#text[at];
    let counts: readonly [number, number] = [character === "+" ? 1 : 0, character === "?" ? 1 : Infinity];
    this.#at++;
    if (character === "{") {
      const found = /^\{(\d{1,6})(?:(,)(\d{1,6})?)?\}/.exec(this.#text.slice(at).join(""));
      if (found === null) throw new PatternError("expected a number, as in {3} or {3,5}; \\{ is a brace", at);
      const least = Number(found[1]);
      const most = found[3] === undefined ? (found[2] === undefined ? least : Infinity) : Number(found[3]);
      if (most < least) throw new PatternError("the second number must not be below the first", at);
      counts = [least, most];
      this.#at = at + found[0].length;
    }
    if (size === 0) throw new PatternError("there is nothing to repeat here", at);
    return counts;
  }

  #set(at: number): Node {
    const isNegated = this.#text[at + 1] === "^";
    const first = at + (isNegated ? 2 : 1);
    const sets: CharacterSet[] = [];
    this.#at = first;
    while (this.#at < this.#text.length) {
      if (this.#text[this.#at] === "]" && this.#at > first) {
        this.#at++;
        return { type: "set", sets, isNegated };
      }
      const low = this.#member();
      const dash = this.#at;
      const after = this.#text[dash + 1];
      if (this.#text[dash] !== "-" || after === "]" || after === undefined) {
        sets.push(low);
        continue;
      }
      this.#at++;
      const high = this.#member();
      const [from, to] = [single(low), single(high)];
      if (from === null || to === null || to < from) throw new PatternError("this is not a range of characters", dash - 1);
      sets.push({ ranges: [[from, to]], isNegated: false });
    }
    throw new PatternError("expected a closing ]", at);
  }

  #member(): CharacterSet {
    const character = this.#text[this.#at]!;
    if (character === "\\") return this.#escape();
    if (character === "[" && [":", ".", "="].includes(this.#text[this.#at + 1] ?? "")) {
      throw new PatternError("a set has no named classes; \\[ is a bracket", this.#at);
    }
    this.#at++;
    return one(character.codePointAt(0)!);
  }

  #escape(): CharacterSet {
    const at = this.#at;
    const character = this.#text[at + 1];
    if (character === undefined) throw new PatternError("a pattern cannot end with a backslash", at);
    this.#at += 2;
    if (/^[dwsDWS]$/.test(character)) return { ranges: CLASSES[character.toLowerCase()]!, isNegated: /[DWS]/.test(character) };
    if (Object.hasOwn(CONTROLS, character)) return one(CONTROLS[character]!);
    const digits = this.#text.slice(at + 2, at + 4).join("");
    if (character === "x" && /^[0-9A-Fa-f]{2}$/.test(digits)) {
      this.#at += 2;
      return one(Number.parseInt(digits, 16));
    }
    if (/^[1-9]$/.test(character)) throw new PatternError("a pattern cannot refer back to a group: join conditions with 'and', ~ and !~", at);
    // Signs of ASCII stand for themselves.
    if (/^[\0-\x7f]$/.test(character) && !/^[0-9A-Za-z]$/.test(character)) return one(character.codePointAt(0)!);
    throw new PatternError(`\\${character} has no meaning here`, at);
  }
}

function one(code: number): CharacterSet {
  return { ranges: [[code, code]], isNegated: false };
}

function single({ ranges, isNegated }: CharacterSet): number | null {
  const [low, high] = ranges[0]!;
  return ranges.length === 1 && !isNegated && low === high ? low : null;
}

/** Appends the steps of a node; they begin at the present end and go on at the end that is then. */
function emit(node: Node, steps: Step[], isAnyCase: boolean): void {
  if (node.type === "set") steps.push({ type: "set", has: tester(node.sets, node.isNegated, isAnyCase) });
  else if (node.type === "assert") steps.push(node);
  else if (node.type === "sequence") for (const inner of node.nodes) emit(inner, steps, isAnyCase);
  else if (node.type === "choice") emitChoice(node.nodes, steps, isAnyCase);
  else {
    for (let time = 0; time < node.least; time++) emit(node.node, steps, isAnyCase);
    if (node.most === Infinity) emitLoop(node.node, steps, isAnyCase);
    else for (let time = node.least; time < node.most; time++) emitMaybe(node.node, steps, isAnyCase);
  }
}

function emitChoice(options: readonly Node[], steps: Step[], isAnyCase: boolean): void {
  const ends: { to: number; or: number }[] = [];
  options.forEach((option, index) => {
    if (index === options.length - 1) return emit(option, steps, isAnyCase);
    const split = { type: "split" as const, to: steps.length + 1, or: 0 };
    steps.push(split);
    emit(option, steps, isAnyCase);
    const end = { type: "split" as const, to: 0, or: 0 };
    ends.push(end);
    steps.push(end);
    split.or = steps.length;
  });
  for (const end of ends) end.to = end.or = steps.length;
}

function emitLoop(node: Node, steps: Step[], isAnyCase: boolean): void {
  const start = steps.length;
  const split = { type: "split" as const, to: start + 1, or: 0 };
  steps.push(split);
  emit(node, steps, isAnyCase);
  steps.push({ type: "split", to: start, or: start });
  split.or = steps.length;
}

function emitMaybe(node: Node, steps: Step[], isAnyCase: boolean): void {
  const split = { type: "split" as const, to: steps.length + 1, or: 0 };
  steps.push(split);
  emit(node, steps, isAnyCase);
  split.or = steps.length;
}

function tester(sets: readonly CharacterSet[], isNegated: boolean, isAnyCase: boolean): (code: number) => boolean {
  const isIn = (code: number): boolean => sets.some(({ ranges, isNegated: isOutside }) => ranges.some(([low, high]) => code >= low && code <= high) !== isOutside);
  const has = (code: number): boolean => (isAnyCase ? cases(code).some(isIn) : isIn(code)) !== isNegated;
  const ascii = Array.from({ length: 128 }, (_, code) => has(code));
  return (code) => (code < 128 ? ascii[code]! : has(code));
}

function cases(code: number): readonly number[] {
  const character = String.fromCodePoint(code);
  const upper = character.toUpperCase();
  const others = [character.toLowerCase(), upper, upper.toLowerCase()].filter((other) => [...other].length === 1);
  return [code, ...others.map((other) => other.codePointAt(0)!)];
}

/** Follows all ways through the steps at once, a character at a time. */
function isFound(steps: readonly Step[], text: string): boolean {
  const codes = Array.from(text.length > MAX_TEXT ? [...text].slice(0, MAX_TEXT) : text, (character) => character.codePointAt(0)!);
  const seenAt = new Int32Array(steps.length).fill(-1);
  let now: number[] = [];
  for (let at = 0; at <= codes.length; at++) {
    const active: number[] = [];
    const waiting = [0, ...now.reverse()];
    while (waiting.length > 0) {
      const index = waiting.pop()!;
      if (seenAt[index] === at) continue;
      seenAt[index] = at;
      const step = steps[index]!;
      if (step.type === "found") return true;
      if (step.type === "split") waiting.push(step.or, step.to);
      else if (step.type === "set") active.push(index);
      else if (holds(step.kind, codes, at)) waiting.push(index + 1);
    }
    if (at === codes.length) return false;
    const code = codes[at]!;
    now = active.filter((index) => (steps[index] as Extract<Step, { type: "set" }>).has(code)).map((index) => index + 1);
  }
  return false;
}

function holds(kind: Assertion, codes: readonly number[], at: number): boolean {
  if (kind === "^") return at === 0;
  if (kind === "$") return at === codes.length;
  return (isWord(codes[at - 1]) !== isWord(codes[at])) === (kind === "b");
}

function isWord(code: number | undefined): boolean {
  return code !== undefined && WORD.some(([low, high]) => code >= low && code <= high);
}
