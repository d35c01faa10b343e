// A browser for the tests of pages, and pages of which all that they ask for or complain of is kept.
import { chromium } from "playwright-core";
import { resolve } from "node:path";

/** A browser without a display, which asks for nothing by itself. */
export const launch = () => chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});

/** An empty page, and what will be seen of it. */
export async function blank(browser, options) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  const seen = { requests: [], complaints: [] };
  page.on("request", (request) => seen.requests.push(request.url()));
  page.on("console", (message) => {
    if (message.type() === "error") seen.complaints.push(message.text());
  });
  page.on("pageerror", (error) => seen.complaints.push(String(error)));
  return { page, seen };
}

/** Opens a file; `prepare` may do something with the page before. */
export async function open(browser, path, options, prepare = () => {}) {
  const { page, seen } = await blank(browser, options);
  await prepare(page);
  await page.goto(`file://${resolve(path)}`);
  return { page, seen };
}

/** By how many pixels a page is wider than its window. */
export const tooWide = (page) => page.evaluate(() =>
  document.documentElement.scrollWidth - document.documentElement.clientWidth);
