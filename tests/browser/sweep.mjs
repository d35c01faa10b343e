// The page of a sweep in a browser, as people use it. Usage: node sweep.mjs PAGE.html…
import { chromium } from "playwright-core";
import { resolve } from "node:path";
import assert from "node:assert/strict";

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});

try {
  for (const path of process.argv.slice(2)) {
    for (const [width, colorScheme] of [[1280, "light"], [1280, "dark"], [390, "light"]]) {
      const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme });
      const page = await context.newPage();
      const requests = [];
      const complaints = [];
      page.on("request", (request) => requests.push(request.url()));
      page.on("console", (message) => {
        if (message.type() === "error") complaints.push(message.text());
      });
      page.on("pageerror", (error) => complaints.push(String(error)));
      await page.goto(`file://${resolve(path)}`);
      assert.equal(requests.length, 1, requests.join(" "));
      const over = await page.evaluate(() =>
        document.documentElement.scrollWidth - document.documentElement.clientWidth);
      assert.ok(over <= 0, `${path} is ${over} px too wide at ${width} px`);
      assert.ok((await page.locator(".answer .lead").boundingBox()).y < 300);
      assert.equal(await page.locator("figure.plot svg").count(), 1);
      // A bar lies in its lane.
      const lanes = await page.locator(".lane").evaluateAll((all) => all.map((lane) =>
        [lane.getBoundingClientRect().width, lane.firstElementChild.getBoundingClientRect().width]));
      assert.ok(lanes.length >= 2);
      for (const [lane, bar] of lanes) assert.ok(bar <= lane + 1, `${bar} in ${lane}`);
      // A filter leaves the rows that have its value, and is taken back.
      const rows = page.locator("table.rows tbody tr");
      const visible = () => page.locator("table.rows tbody tr:not([hidden])").count();
      const all = await rows.count();
      const select = page.locator(".filters select").first();
      const value = await select.locator("option").nth(1).getAttribute("value");
      await select.selectOption(value);
      const column = Number(await select.getAttribute("data-column"));
      const left = await visible();
      assert.ok(left > 0 && left < all, `${left} of ${all}`);
      const texts = await page.locator("table.rows tbody tr:not([hidden])")
        .evaluateAll((rows, column) => rows.map((row) => row.cells[column].textContent), column);
      assert.ok(texts.every((text) => text === value));
      assert.equal(await page.locator(".filters .count").textContent(), `${left} of ${all} rows`);
      await page.locator(".filters button").click();
      assert.equal(await visible(), all);
      // A heading sorts by value, up and then down, with the keyboard too.
      const heads = page.locator("table.rows thead th");
      const sorted = await heads.evaluateAll((heads) =>
        heads.findIndex((head) => head.textContent === "time" || head.textContent === "goodput"));
      assert.ok(sorted >= 0);
      const numbers = () => rows.evaluateAll((rows, column) =>
        rows.map((row) => Number(row.cells[column].dataset.v)), sorted);
      const ordered = (values, sign) => values.every((v, i) => i === 0 || sign * (v - values[i - 1]) >= 0);
      await heads.nth(sorted).locator("button").click();
      assert.ok(ordered(await numbers(), 1));
      await page.keyboard.press("Enter");
      assert.ok(ordered(await numbers(), -1));
      assert.equal(await heads.nth(sorted).getAttribute("aria-sort"), "descending");
      assert.deepEqual(complaints, []);
      await context.close();
    }
    console.log(`${path}: filters and sorts at 1280 px, dark and 390 px`);
  }
} finally {
  await browser.close();
}
