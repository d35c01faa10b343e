// The page of a sweep in a browser, as people use it. Usage: node sweep.mjs PAGE.html…
import { launch, open, tooWide } from "./browser.mjs";
import assert from "node:assert/strict";

const browser = await launch();

try {
  for (const path of process.argv.slice(2)) {
    for (const [width, colorScheme] of [[1280, "light"], [1280, "dark"], [390, "light"]]) {
      const { page, seen } = await open(browser, path, { viewport: { width, height: 900 }, colorScheme });
      assert.equal(seen.requests.length, 1, seen.requests.join(" "));
      const over = await tooWide(page);
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
      assert.deepEqual(seen.complaints, []);
      await page.context().close();
    }
    console.log(`${path}: filters and sorts at 1280 px, dark and 390 px`);
  }
} finally {
  await browser.close();
}
