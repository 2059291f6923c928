import type { ComponentChild, VNode } from "preact";
import { describe, expect, it } from "vitest";

import { MarkdownText } from "../../src/panels/parts/markdown.tsx";

/** The elements as HTML, without the outer one. */
function html(text: string): string {
  const write = (node: ComponentChild): string => {
    if (node === null || node === undefined || typeof node === "boolean") return "";
    if (Array.isArray(node)) return node.map(write).join("");
    if (typeof node !== "object") return String(node).replace(/</g, "&lt;");
    const { type, props } = node as VNode<Record<string, unknown>>;
    const attributes = ["href", "rel", "start"]
      .flatMap((name) => (props[name] === undefined ? [] : [` ${name}="${String(props[name])}"`]))
      .join("");
    return `<${String(type)}${attributes}>${write(props.children as ComponentChild)}</${String(type)}>`;
  };
  return write((MarkdownText({ text }) as VNode<{ children: ComponentChild }>).props.children);
}

describe("Markdown", () => {
  it("has headings, paragraphs, rules and line breaks", () => {
    expect(html("# One\n\ntwo\nthree  \nfour\n***\n### Six #")).toBe(
      "<h3>One</h3><p>two\nthree<br></br>four</p><hr></hr><h5>Six</h5>",
    );
  });

  it("has emphasis and code, and leaves names alone", () => {
    expect(html("**bold *both*** _weak_ ~~gone~~ `a*b*` 2 * 3 * 4 max_new_tokens \\*x\\*")).toBe(
      "<p><strong>bold <em>both</em></strong> <em>weak</em> <del>gone</del> <code>a*b*</code> 2 * 3 * 4 max_new_tokens *x*</p>",
    );
    expect(html("```python\nx = **1**\n\n<b>\n```\nafter")).toBe(
      "<pre><code>x = **1**\n\n&lt;b></code></pre><p>after</p>",
    );
    expect(html("```\nnever closed")).toBe("<pre><code>never closed</code></pre>");
  });

  it("has lists in lists, numbers and boxes", () => {
    expect(html("- a\n  - b\n  - c\n- d\n\n3. x\n4. y")).toBe(
      '<ul><li>a<ul><li>b</li><li>c</li></ul></li><li>d</li></ul><ol start="3"><li>x</li><li>y</li></ol>',
    );
    expect(html("- [x] done\n- [ ] not\n  more")).toBe(
      "<ul><li>☑ done</li><li>☐ not\nmore</li></ul>",
    );
  });

  it("has quotes and tables", () => {
    expect(html("> a\n> - b\n\nc")).toBe(
      "<blockquote><p>a</p><ul><li>b</li></ul></blockquote><p>c</p>",
    );
    expect(html("| a | b |\n|---|:-:|\n| 1 | `x` |\n| p \\| q | |")).toBe(
      "<div><table><thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr><td>1</td><td><code>x</code></td></tr><tr><td>p | q</td><td></td></tr></tbody></table></div>",
    );
  });

  it("links to the web and nowhere else", () => {
    const link = (address: string, text = address): string =>
      `<a href="${address}" rel="noopener noreferrer">${text}</a>`;
    expect(html("[a **b**](https://x.org/p_(q)) <http://y.org> see https://z.org/?a=1.")).toBe(
      `<p>${link("https://x.org/p_(q)", "a <strong>b</strong>")} ${link("http://y.org")} see ${link("https://z.org/?a=1")}.</p>`,
    );
    for (const address of [
      "javascript:alert(1)",
      "JAVASCRIPT:alert(1)",
      "data:text/html,x",
      "//x.org",
      "file:///etc/passwd",
      "../x",
      "&#106;avascript:alert",
    ]) {
      expect(html(`[a](${address})`)).not.toContain("href");
    }
  });

  it("makes neither elements of HTML nor pictures", () => {
    expect(html("<script>alert(1)</script> <img src=x onerror=alert(1)>\n\n<b>x</b>")).toBe(
      "<p>&lt;script>alert(1)&lt;/script> &lt;img src=x onerror=alert(1)></p><p>&lt;b>x&lt;/b></p>",
    );
    expect(html("![cat](https://x.org/cat.png)")).toBe(
      '<p><a href="https://x.org/cat.png" rel="noopener noreferrer">cat</a></p>',
    );
  });

  it("reads a long text once, and as far as a browser can show it quickly", () => {
    for (const text of [
      `${"*a".repeat(9000)}\n\n`.repeat(50),
      "- x\n".repeat(50_000),
      "*a* ".repeat(20_000),
      "|a|b|\n|-|-|\n|c|d|\n".repeat(9000),
      "# a".padEnd(60_000),
      "````a".repeat(9000),
    ]) {
      const found = html(text);
      expect(found.match(/<\w/g)!.length).toBeLessThan(2500);
      expect(found.endsWith("</button></p>") || text.length < 50_000).toBe(true);
    }
  });

  it("survives what was made to break it", () => {
    for (const piece of [
      "> ",
      "- ",
      "*",
      "_",
      "`",
      "[",
      "**a ",
      "(",
      "|-",
      "![](",
      "~~~",
      "  - ",
      "1. ",
    ]) {
      expect(html(piece.repeat(19_000 / piece.length)).length).toBeGreaterThan(0);
      expect(html(`${piece}\n`.repeat(5_000)).length).toBeGreaterThan(0);
    }
    expect(html("word ".repeat(9_000))).toBe(`<p>${"word ".repeat(9_000)}</p>`);
  });
});
