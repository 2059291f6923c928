/** The charts and controls in a real browser: what a person does to them, and what they then show. */

import { readFileSync } from "node:fs";

import type { BrowserContext, Locator, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";

import { openBrowser, serve } from "../../bench/browser.mjs";

let server: { address: string; close(): Promise<void> };
let opened: { browser: BrowserContext; close(): Promise<void> };
let page: Page;
let errors: string[] = [];

beforeAll(async () => {
  server = await serve();
  opened = await openBrowser({ viewport: { width: 1360, height: 900 }, acceptDownloads: true });
});

afterAll(async () => {
  await opened.close();
  await server.close();
});

beforeEach(async () => {
  errors = [];
  page = await opened.browser.newPage();
  page.on("pageerror", (error) => errors.push(error.message));
  await page.goto(`${server.address}gallery.html`);
  await card("train/loss").locator(".chart-over").waitFor();
});

afterEach(async () => {
  expect(errors).toEqual([]);
  await page.close();
});

function card(title: string): Locator {
  return page.locator(`[data-title="${title}"]`);
}

async function over(title: string): Promise<{ x: number; y: number; width: number; height: number }> {
  await card(title).scrollIntoViewIfNeeded();
  await card(title).locator(".chart-over").waitFor();
  return (await card(title).locator(".chart-over").boundingBox())!;
}

async function hover(title: string, x: number, y: number): Promise<void> {
  const box = await over(title);
  await page.mouse.move(box.x + box.width * x, box.y + box.height * y);
}

async function drag(title: string, from: number, to: number): Promise<void> {
  const box = await over(title);
  const y = box.y + box.height / 2;
  await page.mouse.move(box.x + box.width * from, y);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * (from + to) / 2, y);
  await page.mouse.move(box.x + box.width * to, y);
  await page.mouse.up();
}

async function saved(title: string, entry: string): Promise<string> {
  await card(title).getByRole("button", { name: `Options of ${title}` }).click();
  const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("menuitem", { name: entry }).click()]);
  return readFileSync(await file.path(), entry.endsWith("PNG") ? "latin1" : "utf8");
}

function steps(csv: string): number[] {
  // Names with commas are quoted, so the last two fields are counted from the end.
  return csv.trim().split("\r\n").slice(1).map((line) => Number(line.split(",").at(-2)));
}

test("the tooltip lists all series from high to low, with the nearest and the baseline marked", async () => {
  await hover("train/loss", 0.5, 0.6);
  const tip = card("train/loss").locator(".chart-tooltip");
  const values = (await tip.locator(".chart-tooltip-value").allTextContents()).map(Number);
  expect(values).toHaveLength(5);
  expect(values).toEqual([...values].sort((one, other) => other - one));
  expect(await tip.locator(".chart-tooltip-label.is-nearest").count()).toBe(1);
  expect(await tip.locator(".chart-tooltip-note", { hasText: "baseline" }).count()).toBe(1);
});

test("the crosshair follows on other charts, without a tooltip there", async () => {
  await hover("train/loss", 0.5, 0.5);
  const other = card("train/loss, log x");
  expect(await other.locator(".chart-crosshair").isVisible()).toBe(true);
  expect(await other.locator(".chart-dot:visible").count()).toBe(5);
  expect(await other.locator(".chart-tooltip:visible").count()).toBe(0);
  await page.mouse.move(5, 5);
  expect(await other.locator(".chart-crosshair").isVisible()).toBe(false);
});

test("dragging zooms, a double click goes back", async () => {
  const whole = steps(await saved("loss by tokens", "Download CSV"));
  await drag("loss by tokens", 0.25, 0.5);
  const part = steps(await saved("loss by tokens", "Download CSV"));
  expect(part.length).toBeGreaterThan(whole.length * 0.2);
  expect(part.length).toBeLessThan(whole.length * 0.3);
  await card("loss by tokens").locator(".chart-over").dblclick();
  expect(steps(await saved("loss by tokens", "Download CSV"))).toEqual(whole);
});

test("a zoom stays while data arrives, and without one the axis follows", async () => {
  const appendPoints = page.locator("#live").getByRole("button", { name: "Grow", exact: true });
  await appendPoints.scrollIntoViewIfNeeded();
  await drag("grows", 0.2, 0.6);
  const before = steps(await saved("grows", "Download CSV"));
  await appendPoints.click();
  await expect.poll(async () => Number.parseInt(await card("grows").locator(".note").innerText()), { timeout: 5000 }).toBeGreaterThan(430);
  await page.locator("#live").getByRole("button", { name: "Stop" }).click();
  expect(steps(await saved("grows", "Download CSV"))).toEqual(before);
  await card("grows").locator(".chart-over").dblclick();
  expect(steps(await saved("grows", "Download CSV")).at(-1)).toBeGreaterThan(2100);
});

test("a click in the legend shows one series alone", async () => {
  const entries = card("train/loss").locator(".chart-legend-entry");
  await entries.nth(1).click();
  expect(await card("train/loss").locator(".chart-legend-entry.is-dimmed").count()).toBe(4);
  await hover("train/loss", 0.5, 0.5);
  expect(await card("train/loss").locator(".chart-tooltip-value").count()).toBe(1);
  await entries.nth(1).click();
  expect(await card("train/loss").locator(".chart-legend-entry.is-dimmed").count()).toBe(0);
});

test("a value that is not finite is named in the tooltip", async () => {
  const box = await over("not finite, and a late start");
  await page.mouse.move(box.x + box.width * (4000 / 11_980), box.y + 20);
  const tip = card("not finite, and a late start").locator(".chart-tooltip");
  await expect.poll(() => tip.innerText()).toContain("nan");
  expect(await tip.innerText()).toContain("loss is nan for 3 steps");
});

test("arrow keys read values out", async () => {
  await card("train/loss").locator(".chart-plot").focus();
  await page.keyboard.press("ArrowRight");
  await expect.poll(() => card("train/loss").locator("output").first().textContent()).toMatch(/^step .*lr 3e-4, wd 0.1 \d/);
  expect(await card("train/loss").locator(".chart-plot").getAttribute("aria-label")).toContain("train/loss: ");
});

test("SVG is well-formed with one path a line, PNG is a picture", async () => {
  const svg = await saved("loss by tokens", "Download SVG");
  const counted = await page.evaluate((text) => {
    const parsed = new DOMParser().parseFromString(text, "image/svg+xml");
    return { errors: parsed.querySelectorAll("parsererror").length, paths: parsed.querySelectorAll("path").length };
  }, svg);
  expect(counted.errors).toBe(0);
  expect(counted.paths).toBeGreaterThan(5);
  expect((await saved("loss by tokens", "Download PNG")).slice(1, 4)).toBe("PNG");
});

test("brushes of several axes combine, a press takes one back, and keys do the same", async () => {
  const picture = card("Parallel coordinates");
  await picture.scrollIntoViewIfNeeded();
  const canvas = (await picture.locator("canvas").boundingBox())!;
  const numKept = async (): Promise<number> => parseInt(await picture.locator(".note").innerText(), 10);
  const onFirst = async (from: number, to: number): Promise<void> => {
    await page.mouse.move(canvas.x + 30, canvas.y + from);
    await page.mouse.down();
    await page.mouse.move(canvas.x + 30, canvas.y + to, { steps: 4 });
    await page.mouse.up();
  };
  const before = await numKept();
  await onFirst(60, 150);
  await expect.poll(numKept).toBeLessThan(before);
  expect(await numKept()).toBeGreaterThan(0);
  await onFirst(100, 100);
  await expect.poll(numKept).toBe(before);
  await picture.locator("canvas").focus();
  await page.keyboard.press("Escape");
  await expect.poll(numKept).toBe(80);
  await page.keyboard.press("ArrowRight");
  for (let index = 0; index < 8; index++) await page.keyboard.press("Shift+ArrowUp");
  await expect.poll(numKept).toBeLessThan(80);
  await page.keyboard.press("ArrowUp");
  await expect.poll(() => picture.locator(".chart-tooltip-title").innerText()).toMatch(/^run-\d+$/);
});

test("a thousand runs keep a few dozen rows on the page, and a regular expression filters them", async () => {
  const runs = card("1000 runs");
  await runs.scrollIntoViewIfNeeded();
  expect(await runs.getByRole("listitem").count()).toBeLessThan(40);
  await runs.locator(".list").evaluate((list) => list.scrollTo(0, 1e6));
  await runs.getByText("seed999").waitFor();
  await runs.getByRole("searchbox").fill("seed1\\d$");
  expect(await runs.locator(".search-count").innerText()).toBe("10");
  await runs.getByRole("searchbox").fill("(");
  expect(await runs.getByRole("status").innerText()).toContain("closing )");
});

test("menus, dialogs and tabs work by keyboard", async () => {
  const controls = card("Controls");
  await controls.getByRole("button", { name: "Group by" }).focus();
  await page.keyboard.press("Enter");
  await page.keyboard.press("ArrowDown");
  expect(await page.evaluate(() => document.activeElement?.textContent)).toContain("config.seed");
  await page.keyboard.press("Escape");
  expect(await page.locator(".menu").count()).toBe(0);
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keyboard shortcuts" }).waitFor();
  await page.keyboard.press("Escape");
  expect(await page.getByRole("dialog").count()).toBe(0);
  await controls.getByRole("tab", { name: /Charts/ }).focus();
  await page.keyboard.press("ArrowRight");
  expect(await controls.getByRole("tab", { selected: true }).innerText()).toBe("System");
});

test("a phone needs no sideways scrolling", async () => {
  await page.setViewportSize({ width: 390, height: 844 });
  await page.waitForTimeout(100);
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(390);
});

test("changing the theme repaints the charts", async () => {
  const corner = (): Promise<string> => card("train/loss").locator("canvas").evaluate((canvas) => {
    const { data } = (canvas as HTMLCanvasElement).getContext("2d")!.getImageData(0, 0, 300, 200);
    return String(data.reduce((sum, value, index) => (index % 4 === 3 ? sum : sum + value), 0));
  });
  const light = await corner();
  await page.getByRole("radio", { name: "Dark" }).check({ force: true });
  await expect.poll(corner).not.toBe(light);
});

test("text on every surface has enough contrast, in both themes", async () => {
  for (const theme of ["light", "dark"]) {
    const lowest = await page.evaluate((name) => {
      document.documentElement.dataset["theme"] = name;
      const style = getComputedStyle(document.documentElement);
      const light = (variable: string): number => {
        const parts = style.getPropertyValue(variable).match(/[\d.]+/g)!.slice(0, 3).map((part) => Number(part) / 255);
        const [red, green, blue] = parts.map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
        return 0.2126 * red! + 0.7152 * green! + 0.0722 * blue!;
      };
      const pairs = ["--ink", "--muted", "--accent", "--good", "--warning", "--critical"].flatMap((text) =>
        ["--page", "--surface", "--raised", "--hover"].map((ground) => [light(text), light(ground)].sort((one, other) => one - other)));
      return Math.min(...pairs.map(([low, high]) => (high! + 0.05) / (low! + 0.05)));
    }, theme);
    expect(lowest, theme).toBeGreaterThanOrEqual(4.5);
  }
});
