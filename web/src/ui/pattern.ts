/**
 * Regular expressions in time linear in the text, with the rules of the server (`store/pattern.py`): the same pattern finds the same texts, and none
 * freezes the page. The browser's own engine goes back and tries again, which can take for ever. `spec/patterns.json` tests both.
 */

const MAX_PATTERN = 200;
const MAX_TEXT = 4096;
const MAX_SIZE = 1000;
const ANY_CASE = "(?i)";
const REPEATS = "*+?{";
const CLASSES: Readonly<Record<string, Has>> = {
  d: (code) => code >= 48 && code <= 57,
  s: (code) => code === 32 || code === 9 || code === 10 || code === 12 || code === 13,
  w: (code) => (code >= 48 && code <= 57) || (code >= 65 && code <= 90) || code === 95 || (code >= 97 && code <= 122),
};
const CONTROLS = "tnvfr";
const CONTROL_CODES: readonly number[] = [9, 10, 11, 12, 13];

type Has = (code: number) => boolean;
/** One step through a pattern: past a character, past a place, or on to other steps. The last step is followed by the end. */
interface Step {
  readonly has?: Has;
  readonly holds?: (codes: readonly number[], at: number) => boolean;
  readonly to?: number[];
}
/** Appends steps, which begin at the present end and lead to the end that is then. */
type Emit = (steps: Step[]) => void;
/** What stands for one character; its code where it is one and not a class. */
interface Member {
  readonly has: Has;
  readonly code?: number;
}

/** What is wrong with a pattern. */
export class PatternError extends Error {}

/** Whether a pattern is found anywhere in a text; throws a `PatternError` for what is no pattern. */
export function compilePattern(pattern: string): (text: string) => boolean {
  const steps: Step[] = [];
  parse([...pattern])(steps);
  return (text) => isFound(steps, text);
}

function parse(text: readonly string[]): Emit {
  const isAnyCase = text.slice(0, ANY_CASE.length).join("") === ANY_CASE;
  let at = isAnyCase ? ANY_CASE.length : 0;
  /** How long the group, or the whole, is with its repeats written out. */
  let size = 0;

  const fail = (sentence: string): never => {
    throw new PatternError(sentence);
  };
  const failAt = (what: string): never => fail(`${what} has no meaning here`);
  const isNext = (characters: string): boolean => at < text.length && characters.includes(text[at]!);

  function choice(): Emit {
    const options: Emit[][] = [[]];
    while (at < text.length && !isNext(")")) {
      if (isNext("|")) {
        at++;
        options.push([]);
      } else {
        options.at(-1)!.push(item());
      }
      if (size > MAX_SIZE) fail(`a pattern has at most ${MAX_SIZE} characters with its repeats written out`);
    }
    return either(options.map((parts): Emit => (steps) => parts.forEach((part) => part(steps))));
  }

  function item(): Emit {
    if (isNext(REPEATS)) counts(0);
    if (isNext("^$") || (isNext("\\") && /^[bB]$/.test(text[at + 1] ?? ""))) {
      if (isNext("\\")) at++;
      const kind = text[at++]!;
      return (steps) => steps.push({ holds: (codes, index) => holds(kind, codes, index) });
    }
    const before = size;
    const body = isNext("(") ? group() : one(isNext("[") ? set() : isNext(".") ? dot() : escaped().has);
    if (!isNext(REPEATS)) return body;
    const once = size - before;
    const isCounted = isNext("{");
    const [least, most] = counts(once);
    if (isCounted) size += once * (Math.max(most === Infinity ? least : most, 1) - 1);
    if (isNext("?")) at++;
    // A second repeat has nothing to repeat.
    if (size <= MAX_SIZE && isNext(REPEATS)) counts(0);
    return repeat(body, least, most);
  }

  function one(has: Has): Emit {
    size++;
    const isIn = isAnyCase ? (code: number): boolean => cases(code).some(has) : has;
    return (steps) => steps.push({ has: isIn });
  }

  function group(): Emit {
    const start = text.slice(at, at + 3).join("");
    if (/^\(\?[=!<]/.test(start)) fail("a pattern cannot look ahead or behind: join two conditions with 'and', the second with !~ for what must not occur");
    if (/^\(\?[^:]?$/.test(start)) failAt("(?");
    at += start === "(?:" ? 3 : 1;
    const outer = size;
    size = 0;
    const body = choice();
    if (at++ === text.length) fail("expected a closing )");
    size = outer + Math.max(size, 1);
    return body;
  }

  /** How often what is next is repeated; `once` is the size of that, 0 for nothing. */
  function counts(once: number): readonly [number, number] {
    let found: readonly [number, number] = [Number(isNext("+")), isNext("?") ? 1 : Infinity];
    if (isNext("{")) {
      const [all, least, comma, most] = /^\{(\d{1,6})(?:(,)(\d{1,6})?)?\}/.exec(text.slice(at).join("")) ?? fail("expected a number, as in {3} or {3,5}; write \\{ for a brace");
      found = [Number(least), most === undefined ? (comma === undefined ? Number(least) : Infinity) : Number(most)];
      if (found[1] < found[0]) failAt(all!);
      at += all!.length - 1;
    }
    at++;
    if (once === 0) fail("there is nothing to repeat here");
    return found;
  }

  function set(): Has {
    at++;
    const isNegated = isNext("^");
    if (isNegated) at++;
    const first = at;
    const members: Has[] = [];
    while (!isNext("]") || at === first) {
      if (at === text.length) fail("expected a closing ]");
      if (isNext("[") && /^[:.=]$/.test(text[at + 1] ?? "")) failAt(`[${text[at + 1]}`);
      const low = escaped();
      const after = text[at + 1];
      if (isNext("-") && after !== undefined && after !== "]") {
        at++;
        const high = escaped();
        if (!(high.code! >= low.code!)) failAt("this range");
        members.push((code) => code >= low.code! && code <= high.code!);
      } else {
        members.push(low.has);
      }
    }
    at++;
    const isIn = (code: number): boolean => members.some((has) => has(code));
    // Of a character in any case none may be in a set that is negated, so its other cases are looked at here.
    return isNegated ? (code) => !(isAnyCase ? cases(code) : [code]).some(isIn) : isIn;
  }

  function dot(): Has {
    at++;
    return (code) => code !== 10;
  }

  function escaped(): Member {
    const character = text[at++]!;
    if (character !== "\\") return literal(character.codePointAt(0)!);
    const next = text[at++] ?? failAt("a \\ at the end");
    const isClass = CLASSES[next.toLowerCase()];
    if (isClass !== undefined) return { has: next >= "a" ? isClass : (code) => !isClass(code) };
    if (CONTROLS.includes(next)) return literal(CONTROL_CODES[CONTROLS.indexOf(next)]!);
    const digits = text.slice(at, at + 2).join("");
    if (next === "x" && /^[0-9a-f]{2}$/i.test(digits)) {
      at += 2;
      return literal(Number.parseInt(digits, 16));
    }
    if (/[1-9]/.test(next)) fail("a pattern cannot refer back to a group: join conditions with 'and', ~ and !~");
    // Signs of ASCII stand for themselves.
    if (next > "\x7f" || /[0-9a-z]/i.test(next)) failAt(`\\${next}`);
    return literal(next.codePointAt(0)!);
  }

  if (text.length > MAX_PATTERN) fail(`a pattern has at most ${MAX_PATTERN} characters`);
  const whole = choice();
  if (at < text.length) fail("there is no ( for this )");
  return whole;
}

function literal(code: number): Member {
  return { code, has: (other) => other === code };
}

function either(options: readonly Emit[]): Emit {
  return (steps) => {
    const ends: number[] = [];
    for (const option of options) {
      const to = [steps.length + 1];
      steps.push({ to });
      option(steps);
      steps.push({ to: ends });
      if (option !== options.at(-1)) to.push(steps.length);
    }
    ends.push(steps.length);
  };
}

function repeat(body: Emit, least: number, most: number): Emit {
  return (steps) => {
    for (let time = 0; time < least; time++) body(steps);
    const isEndless = most === Infinity;
    for (let time = least; time < (isEndless ? least + 1 : most); time++) {
      const start = steps.length;
      const to = [start + 1];
      steps.push({ to });
      body(steps);
      if (isEndless) steps.push({ to: [start] });
      to.push(steps.length);
    }
  };
}

/** Follows all ways through the steps at once, a character at a time. */
function isFound(steps: readonly Step[], text: string): boolean {
  const codes = Array.from(text, (character) => character.codePointAt(0)!).slice(0, MAX_TEXT);
  const seenAt = new Int32Array(steps.length).fill(-1);
  let now: number[] = [];
  for (let at = 0; at <= codes.length; at++) {
    const waiting = [0, ...now];
    now = [];
    while (waiting.length > 0) {
      const index = waiting.pop()!;
      if (index === steps.length) return true;
      if (seenAt[index] === at) continue;
      seenAt[index] = at;
      const { has, to, holds: isHere } = steps[index]!;
      if (to !== undefined) waiting.push(...to);
      else if (has === undefined ? isHere!(codes, at) : at < codes.length && has(codes[at]!)) (has === undefined ? waiting : now).push(index + 1);
    }
  }
  return false;
}

function holds(kind: string, codes: readonly number[], at: number): boolean {
  if (kind === "^") return at === 0;
  if (kind === "$") return at === codes.length;
  const isWord = (code = 0): boolean => CLASSES["w"]!(code);
  return (isWord(codes[at - 1]) !== isWord(codes[at])) === (kind === "b");
}

function cases(code: number): readonly number[] {
  const character = String.fromCodePoint(code);
  const upper = character.toUpperCase();
  const others = [character.toLowerCase(), upper, upper.toLowerCase()].filter((other) => [...other].length === 1);
  return [code, ...others.map((other) => other.codePointAt(0)!)];
}
