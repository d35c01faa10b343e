// A comparison's page in a browser, as people use it. Usage: node check.mjs PAGE.html…
import { launch, open, tooWide } from "./browser.mjs";
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import assert from "node:assert/strict";

const folder = mkdtempSync(join(tmpdir(), "fabricsim-pages-"));
const browser = await launch();

try {
  for (const path of process.argv.slice(2)) {
    for (const [width, colorScheme] of [[1280, "light"], [1280, "dark"], [390, "light"]]) {
      const { page, seen } = await open(browser, path, { viewport: { width, height: 900 }, colorScheme });
      // Nothing but the page itself, and no complaint.
      assert.equal(seen.requests.length, 1, seen.requests.join(" "));
      // No scrolling sideways but in what scrolls by itself.
      const over = await tooWide(page);
      assert.ok(over <= 0, `${path} is ${over} px too wide at ${width} px`);
      // The answer is seen first, and text stands out from its ground.
      const lead = page.locator(".answer .lead");
      assert.ok((await lead.boundingBox()).y < 300);
      const [ink, paper] = await lead.evaluate((element) => {
        const shade = (colour) => colour.match(/\d+/g).slice(0, 3).reduce((a, b) => a + Number(b), 0);
        const card = element.closest("section");
        return [shade(getComputedStyle(element).color), shade(getComputedStyle(card).backgroundColor)];
      });
      assert.ok(Math.abs(ink - paper) > 380, `ink ${ink} on ${paper}`);
      assert.equal(ink > paper, colorScheme === "dark");
      // Every bar of a waterfall lies in its lane, and its lane in the page.
      const bars = await page.locator(".waterfall .bar").evaluateAll((lanes) => lanes.map((lane) => {
        const [outer, inner] = [lane.getBoundingClientRect(), lane.firstElementChild.getBoundingClientRect()];
        return [outer.left - inner.left, inner.right - outer.right, outer.width];
      }));
      assert.ok(bars.length >= 3);
      for (const [left, right, lane] of bars) {
        assert.ok(left <= 1 && right <= 3 && lane > 60, `${left} ${right} ${lane}`);
      }
      // Timelines of all variants on one axis: each as long as it took, from 0.
      const timelines = page.locator("section", { has: page.locator("h2", { hasText: /^Timelines/ }) });
      const { begin, end, ends } = JSON.parse(await timelines.locator("script").textContent());
      assert.ok(begin === 0 && Math.max(...ends) === end && Math.min(...ends) < end);
      const canvas = await timelines.locator("canvas").boundingBox();
      assert.ok(canvas.width > 300 && canvas.height > 150);
      // Details fold and unfold.
      const details = page.locator("details.variant").first();
      const before = await details.evaluate((element) => element.open);
      await details.locator("summary").first().click();
      assert.equal(await details.evaluate((element) => element.open), !before);
      await page.keyboard.press("Enter");
      assert.equal(await details.evaluate((element) => element.open), before);
      assert.deepEqual(seen.complaints, []);
      if (width === 1280 && colorScheme === "light") {
        const pdf = join(folder, "page.pdf");
        await page.pdf({ path: pdf, format: "A4" });
        assert.ok(statSync(pdf).size > 20_000);
      }
      await page.context().close();
    }
    console.log(`${path}: well at 1280 px, dark, 390 px and printed`);
  }
} finally {
  await browser.close();
  rmSync(folder, { recursive: true, force: true });
}
