// The page of `fabricsim lab` in a browser, as people use it. Usage: node lab.mjs PROGRAM
import { blank, launch, tooWide } from "./browser.mjs";
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import assert from "node:assert/strict";

const program = process.argv[2];
const folder = mkdtempSync(join(tmpdir(), "fabricsim-lab-"));
const lab = spawn(program, ["lab", "--port", "0"], { stdio: ["ignore", "pipe", "ignore"] });
const address = String((await once(lab.stdout, "data"))[0]).trim();
const browser = await launch();

/** What was asked for elsewhere. */
const foreign = ({ requests }) => requests.filter((url) => !url.startsWith(address) && !url.startsWith("blob:"));

/** Opens a state; anything that it asks for elsewhere or complains of is kept. */
async function open(state, options) {
  const { page, seen } = await blank(browser, { acceptDownloads: true, ...options });
  await page.goto(`${address}#${state}`);
  await settled(page);
  return { page, seen };
}

/** The number that is asked for is there. */
const settled = (page) => page.waitForFunction(() =>
  !document.querySelector(".lab").classList.contains("stale") && /\d/.test(document.querySelector("#number").textContent));
const whole = (page) => page.waitForFunction(() => document.querySelector("#curve-aside").textContent === "" && document.querySelector("#curve svg"));

/** Puts a slider somewhere as a drag does, and waits until the figure is painted. */
async function drag(page, id, value) {
  const before = await page.evaluate(() => performance.getEntriesByName("input to figure").length);
  await page.locator(`#${id}`).evaluate((slider, value) => {
    slider.value = value;
    slider.dispatchEvent(new Event("input", { bubbles: true }));
  }, String(value));
  await page.waitForFunction((before) => performance.getEntriesByName("input to figure").length > before, before);
  const all = await page.evaluate(() => performance.getEntriesByName("input to figure").map((entry) => entry.duration));
  return all[all.length - 1];
}

function report(name, times) {
  const sorted = [...times].sort((a, b) => a - b);
  const at = (part) => sorted[Math.min(sorted.length - 1, Math.ceil(part * sorted.length) - 1)];
  console.log(`${name}: ${times.length} drags, input to repainted figure p50 ${at(0.5).toFixed(0)} ms, p95 ${at(0.95).toFixed(0)} ms, most ${at(1).toFixed(0)} ms`);
  return at(0.95);
}

try {
  // One server: a link's rate, 50 values that none has been before.
  const { page, seen } = await open("size=64MiB");
  const times = [];
  const number = await page.locator("#number").textContent();
  for (let i = 0; i < 50; i++) times.push(await drag(page, "rate-nvlink4", i % 2 ? 100 - 5 * ((i >> 1) % 18 + 1) : 100 + 5 * ((i >> 1) % 19 + 1)));
  assert.notEqual(await page.locator("#number").textContent(), number);
  assert.match(page.url(), /rate\.nvlink4=[\d.]+GB/);
  // Whoever loads the address sees the same.
  const shown = await page.locator("#number").textContent();
  const again = await open(page.url().split("#")[1]);
  assert.equal(await again.page.locator("#number").textContent(), shown);
  await again.page.context().close();
  assert.ok(report("one server, all-reduce of 64 MiB", times) < 2000);

  // The size: along the curve.
  const sizes = [];
  for (let i = 0; i < 21; i++) sizes.push(await drag(page, "size", 10 + ((i * 8) % 21)));
  report("one server, its size", sizes);
  await page.locator("#reset").click();
  await whole(page);
  assert.equal(await page.locator("#curve .open").count(), 0);
  assert.ok(await page.locator("#curve .dot").count() >= 20);

  // Another job leaves the machine as it is.
  const machine = await open("machine=superpod-h100&nodes=2&oversubscription=4&size=1MiB");
  await machine.page.locator("#job").selectOption("all-gather");
  await settled(machine.page);
  assert.match(machine.page.url(), /oversubscription=4/);
  assert.match(await machine.page.locator('.control[data-for="oversubscription"] output').textContent(), /4 : 1/);
  assert.doesNotMatch(machine.page.url(), /size=/);
  await machine.page.context().close();

  // What is wrong stands at its control.
  await page.locator("#gpus").fill("9");
  const wrong = page.locator('.control[data-for="gpus"] .wrong');
  await wrong.waitFor({ state: "visible" });
  assert.match(await wrong.textContent(), /1 to 8/);
  await page.locator("#gpus").fill("");
  await settled(page);
  assert.ok(await wrong.isHidden());

  // Two states, and what makes the difference: the bars add up.
  await page.locator("#algorithm").selectOption("ring");
  await settled(page);
  await page.locator("#pin-a").click();
  await page.locator("#algorithm").selectOption("tree");
  await settled(page);
  await page.locator("#pin-b").click();
  await page.locator("#waterfall .waterfall").waitFor();
  const bars = await page.locator("#waterfall .bar > span").evaluateAll((bars) => bars.map((bar) => parseFloat(bar.style.left) + parseFloat(bar.style.width)));
  assert.ok(bars.length >= 3 && bars.every((end) => end <= 100.1));

  // Saved, it is a scenario that gives the same time.
  const [download] = await Promise.all([page.waitForEvent("download"), page.locator("#save").click()]);
  assert.equal(download.suggestedFilename(), "lab.json");
  const path = await download.path();
  assert.equal(JSON.parse(readFileSync(path, "utf8")).job.collective.algorithm, "tree");
  execFileSync(program, ["run", path, "-q", "-o", join(folder, "run")]);
  const summary = JSON.parse(readFileSync(join(folder, "run", "summary.json"), "utf8"));
  const point = summary.rows.find((row) => row.bytes === 1 << 26);
  const said = await page.locator("#number").textContent();
  assert.equal(Number(said.split(" ")[0]), Number(point.time_us.toPrecision(3)), said);

  // The keyboard moves a slider and the page follows.
  await page.locator("#size").focus();
  const before = await page.locator('output[for="size"]').textContent();
  await page.keyboard.press("ArrowLeft");
  assert.notEqual(await page.locator('output[for="size"]').textContent(), before);
  await settled(page);
  assert.deepEqual(seen.complaints, []);
  assert.deepEqual(foreign(seen), []);
  await page.context().close();

  // Narrow, dark: nothing scrolls sideways, the number is what is seen first.
  for (const [width, colorScheme] of [[390, "light"], [1280, "dark"], [390, "dark"]]) {
    const { page, seen } = await open("size=1MiB&job=all-gather", { viewport: { width, height: 844 }, colorScheme });
    await whole(page);
    const over = await tooWide(page);
    assert.ok(over <= 0, `${over} px too wide at ${width} px`);
    assert.ok((await page.locator("#number").boundingBox()).y < 120);
    assert.deepEqual([...seen.complaints, ...foreign(seen)], []);
    await page.context().close();
  }

  // A step of training: the size of its buckets.
  const step = await open("job=ddp-buckets");
  const buckets = [];
  for (let i = 0; i < 12; i++) buckets.push(await drag(step.page, "bucket", 18 + ((i * 5) % 12)));
  report("a step of training, its buckets", buckets);
  await step.page.locator("#tables canvas").waitFor();
  assert.deepEqual([...step.seen.complaints, ...foreign(step.seen)], []);
  await step.page.context().close();

  // 1,024 GPUs.
  const large = await open("machine=superpod-h100&nodes=128&size=256MiB");
  const many = [];
  for (let i = 0; i < 12; i++) many.push(await drag(large.page, "rate-ib-ndr400", 150 - 5 * i));
  report("1,024 GPUs, all-reduce of 256 MiB", many);
  assert.deepEqual([...large.seen.complaints, ...foreign(large.seen)], []);
} finally {
  await browser.close();
  rmSync(folder, { recursive: true });
  lab.kill("SIGINT");
  const [status] = await once(lab, "exit");
  assert.equal(status, 130);
}
