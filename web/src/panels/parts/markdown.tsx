/**
 * Markdown as elements of the page: headings, lists, quotes, tables, code, emphasis and links. HTML stays text, pictures are
 * links, and only http and https are linked. Libraries for this weigh a tenth of the whole page.
 */

import { h } from "preact";
import type { ComponentChild, JSX } from "preact";

import "./markdown.css";

/** Deeper nesting stays as it was written. */
const DEEPEST = 12;
/** What comes after so many characters or elements is shown only as plain text: browsers need seconds for more. */
const MOST_CHARACTERS = 50_000;
const MOST_ELEMENTS = 2000;
const MOST_CELLS = 100;
const FENCE = /^ {0,3}(`{3,}|~{3,})/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*)/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const ITEM = /^ ?([-*+]|\d{1,9}[.)])( +|$)/;
const QUOTE = /^ {0,3}> ?/;
const TABLE_LINE = /^ *(?:\| *)?(?::?-+:? *\| *)+(?::?-+:? *)?$/;
/** Emphasis ends before the next mark of its kind, so that a long text is read once. */
const SPAN = new RegExp(
  [
    String.raw`\\(?<escaped>[!-/:-@[-\x60{-~])`,
    String.raw`(?<breaks>(?:(?<! ) {2,}|\\)\n)`,
    String.raw`(?<!\x60)(?<ticks>\x60{1,3})(?!\x60)(?<code>[^]{1,2000}?)(?<!\x60)\k<ticks>(?!\x60)`,
    String.raw`!?\[(?<label>[^\]\n]{0,500})\]\(<?(?<address>[^\s<>()]{1,2000}(?:\([^\s<>()]{0,200}\)[^\s<>()]{0,200})?)>?(?: +"[^"\n]{0,500}")?\)`,
    String.raw`(?<![\w/])<?(?<bare>https?:\/\/[^\s<>"'*|\x60]{0,2000}[^\s<>"'*|\x60.,:;!?)\]])>?`,
    String.raw`(?<two>\*\*|~~|(?<!\w)__)(?=\S)(?<strong>(?:(?!\k<two>)[^]|\*(?=\*\*(?!\*))){1,2000})(?<=\S)\k<two>(?![*~_])`,
    // Names such as max_new_tokens have no emphasis in them.
    String.raw`(?:(?<!\*)\*(?![\s*_])(?<weak>(?:[^*]|\*\*[^*]+\*\*){1,2000})(?<=[^\s_])\*|(?<!\w)_(?![\s*_])(?<low>(?:[^_]|(?<=\w)_(?=\w)){1,2000})(?<=[^\s*])_)(?![*\w])`,
  ].join("|"),
  "g",
);
/** How many elements the text that is being read may still have, and the marks of its highest heading, which becomes an h3. */
let left = 0;
let fewestMarks = 1;

export function MarkdownText({
  text,
  onPlain,
}: {
  readonly text: string;
  readonly onPlain?: () => void;
}): JSX.Element {
  left = MOST_ELEMENTS;
  fewestMarks = [...text.matchAll(new RegExp(HEADING, "gm"))].reduce(
    (fewest, [, marks]) => Math.min(fewest, marks!.length),
    6,
  );
  const content = blocks(
    text.slice(0, MOST_CHARACTERS).replace(/\r\n?/g, "\n").replace(/\t/g, "    ").split("\n"),
    0,
  );
  const isWhole = text.length <= MOST_CHARACTERS && left > 0;
  return (
    <div class="markdown" tabIndex={0}>
      {content}
      {!isWhole && (
        <p>
          This text is too long to be shown with its format.{" "}
          <button type="button" class="button" onClick={onPlain}>
            Show all of it as plain text
          </button>
        </p>
      )}
    </div>
  );
}

function blocks(lines: readonly string[], depth: number): ComponentChild[] {
  if (depth > DEEPEST) return [lines.join("\n")];
  const found: ComponentChild[] = [];
  let at = 0;
  /** The next line, and those after it that belong to it. */
  const take = (belongs: (line: string) => boolean): string[] => {
    const start = at++;
    while (at < lines.length && belongs(lines[at]!)) at++;
    return lines.slice(start, at);
  };
  while (at < lines.length && left-- > 0) {
    const line = lines[at]!;
    const fence = FENCE.exec(line)?.[1];
    const [, marks, heading] = HEADING.exec(line) ?? [];
    if (line.trim() === "") at++;
    else if (fence !== undefined) {
      const [, ...code] = take((next) => !next.trimStart().startsWith(fence));
      at++;
      found.push(
        <pre>
          <code>{code.join("\n")}</code>
        </pre>,
      );
    } else if (marks !== undefined) {
      at++;
      found.push(
        h(
          `h${Math.min(6, Math.max(3, marks.length - fewestMarks + 3))}`,
          null,
          inline(
            heading!
              .trimEnd()
              .replace(/(?<!\S)#+$/, "")
              .trimEnd(),
            depth,
          ),
        ),
      );
    } else if (RULE.test(line)) {
      at++;
      found.push(<hr />);
    } else if (QUOTE.test(line)) {
      found.push(
        <blockquote>
          {blocks(
            take((next) => QUOTE.test(next)).map((next) => next.replace(QUOTE, "")),
            depth + 1,
          )}
        </blockquote>,
      );
    } else if (ITEM.test(line)) {
      const isSame = (next: string): boolean =>
        ITEM.test(next) && !RULE.test(next) && isOrdered(next) === isOrdered(line);
      found.push(
        list(
          take(
            (next) =>
              isSame(next) ||
              /^ *$|^ {2}/.test(next) ||
              (lines[at - 1]!.trim() !== "" && !startsBlock(lines, at)),
          ),
          depth,
        ),
      );
    } else if (isTable(lines, at))
      found.push(
        table(
          take((next) => next.includes("|")),
          depth,
        ),
      );
    else found.push(<p>{inline(take(() => !startsBlock(lines, at)).join("\n"), depth)}</p>);
  }
  return found;
}

function startsBlock(lines: readonly string[], at: number): boolean {
  return (
    lines[at]!.trim() === "" ||
    [FENCE, HEADING, RULE, QUOTE, ITEM].some((pattern) => pattern.test(lines[at]!)) ||
    isTable(lines, at)
  );
}

function isTable(lines: readonly string[], at: number): boolean {
  return lines[at]!.includes("|") && TABLE_LINE.test(lines[at + 1] ?? "");
}

function isOrdered(line: string): boolean {
  return /^ ?\d/.test(line);
}

function list(lines: readonly string[], depth: number): ComponentChild {
  const items: string[][] = [];
  let width = 0;
  for (const line of lines) {
    const [start] = ITEM.exec(line) ?? [];
    if (start === undefined) items.at(-1)!.push(line.replace(new RegExp(`^ {0,${width}}`), ""));
    else {
      width = start.length;
      items.push([
        line
          .slice(width)
          .replace(/^\[([ xX])\] /, (_, mark: string) => (mark === " " ? "☐ " : "☑ ")),
      ]);
    }
  }
  const content = items.flatMap((item) =>
    left-- > 0 ? [blocks(item, depth + 1) as JSX.Element[]] : [],
  );
  // A paragraph at the start of an item would stand too far from the others.
  const children = content.map(([first, ...others]) => (
    <li>{first?.type === "p" ? [first.props.children, ...others] : [first, ...others]}</li>
  ));
  return isOrdered(lines[0]!) ? (
    <ol start={parseInt(lines[0]!, 10)}>{children}</ol>
  ) : (
    <ul>{children}</ul>
  );
}

function table([head = "", , ...rows]: readonly string[], depth: number): ComponentChild {
  const cells = (line: string): string[] =>
    line
      .trim()
      .replace(/^\||(?<!\\)\|$/g, "")
      .split(/(?<!\\)\|/, MOST_CELLS)
      .map((cell) => cell.trim().replace(/\\\|/g, "|"));
  return (
    <div class="markdown-table">
      <table>
        <thead>
          <tr>
            {cells(head).map((cell) => (
              <th>{inline(cell, depth)}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => {
            left -= 9;
            return (
              left > 0 && (
                <tr>
                  {cells(row).map((cell) => (
                    <td>{inline(cell, depth)}</td>
                  ))}
                </tr>
              )
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

function inline(text: string, depth: number): ComponentChild[] {
  if (depth > DEEPEST) return [text];
  const found: ComponentChild[] = [];
  let plain = 0;
  for (const match of text.matchAll(SPAN)) {
    if (left-- <= 0) break;
    found.push(text.slice(plain, match.index), span(match.groups!, depth + 1));
    plain = match.index + match[0].length;
  }
  return [...found, text.slice(plain)];
}

function span(
  {
    escaped,
    breaks,
    code,
    label,
    address,
    bare,
    two,
    strong,
    weak,
    low,
  }: Record<string, string | undefined>,
  depth: number,
): ComponentChild {
  if (escaped !== undefined) return escaped;
  if (breaks !== undefined) return <br />;
  if (code !== undefined)
    return <code>{code.replace(/\n/g, " ").replace(/^ (?=.*\S)(.*) $/, "$1")}</code>;
  if (strong !== undefined) return h(two === "~~" ? "del" : "strong", null, inline(strong, depth));
  if ((weak ?? low) !== undefined) return <em>{inline((weak ?? low)!, depth)}</em>;
  const to = (address ?? bare)!;
  const content = label === undefined ? to : inline(label, depth);
  return /^https?:\/\//i.test(to) ? (
    <a href={to} target="_blank" rel="noopener noreferrer">
      {content}
    </a>
  ) : (
    <span title={to}>{content}</span>
  );
}
