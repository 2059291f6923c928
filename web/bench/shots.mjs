// Pictures of the gallery: light, dark and on a phone. `npm run shots` writes them to shots/.

import { mkdirSync } from "node:fs";

import { openBrowser, serve } from "./browser.mjs";

const VIEWS = [
  { name: "light", colorScheme: "light", viewport: { width: 1360, height: 900 } },
  { name: "dark", colorScheme: "dark", viewport: { width: 1360, height: 900 } },
  { name: "phone", colorScheme: "light", viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true, deviceScaleFactor: 2 },
];

mkdirSync("shots", { recursive: true });
const server = await serve();
for (const { name, ...context } of VIEWS) {
  const { browser, close } = await openBrowser(context);
  const page = await browser.newPage();
  page.on("pageerror", (error) => console.error(name, error.message));
  page.on("console", (message) => message.type() === "error" && console.error(name, message.text()));
  await page.goto(`${server.address}gallery.html`);
  await page.waitForSelector(".chart-plot canvas");
  const height = await page.evaluate(() => document.documentElement.scrollHeight);
  for (let top = 0; top < height; top += 500) {
    await page.evaluate((to) => window.scrollTo(0, to), top);
    await page.waitForTimeout(60);
  }
  await page.evaluate(() => window.scrollTo(0, 0));
  await page.waitForTimeout(200);
  await page.screenshot({ path: `shots/${name}.png`, fullPage: true });
  if (name !== "phone") {
    const plot = await page.locator("[data-title='train/loss'] .chart-over").boundingBox();
    await page.mouse.move(plot.x + plot.width * 0.55, plot.y + plot.height * 0.6);
    await page.waitForTimeout(100);
    await page.screenshot({ path: `shots/${name}-hover.png` });
  }
  console.log(name, "scroll width", await page.evaluate(() => document.documentElement.scrollWidth));
  await close();
}
await server.close();
