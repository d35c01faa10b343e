// Lessons in a browser, as people use them. Usage: node lessons.mjs [--numbers] PAGE.html…
// With --numbers the pages are algorithms: every one has to end with the right sums, or, where its name says so,
// with a wrong one.
import { launch, open, tooWide } from "./browser.mjs";
import { faults } from "./layout.mjs";
import { basename, dirname, join } from "node:path";
import { existsSync, readFileSync } from "node:fs";
import assert from "node:assert/strict";

const browser = await launch();

/** The page after each. */
const next = new Map();

/** Time passes when the test says so. */
const still = (page) => page.clock.install();

const stage = (page) => page.locator("#stage").innerHTML();

/** Nothing is too small, cut or covered: at the begin, where the whole picture is in full colour, and on the way. */
async function laidOut(page, path, width) {
  assert.ok(await page.locator(".veil").evaluateAll((all) => all.every((veil) => Number(veil.getAttribute("width")) === 0)), "the first view is veiled");
  const heads = await page.locator(".memory thead th").allTextContents();
  assert.ok(heads.every((name) => name.trim()), `${path}, ${width} px wide: a column has no name`);
  for (const moment of [0, 470]) {
    await page.locator("#clock").fill(String(moment));
    assert.deepEqual(await faults(page), [], `${path}, ${width} px wide, at ${moment / 10} % of the time`);
  }
  await page.locator("#clock").fill("0");
}

/** The way through the course: to the index, and to pages that are there. */
async function walked(page, path) {
  const links = await page.locator("nav.course a").evaluateAll((all) => all.map((link) => [link.rel, link.getAttribute("href")]));
  assert.ok(links.some(([, to]) => to === "index.html"), "no link to the index");
  for (const [, to] of links) {
    assert.ok(to === "index.html" || existsSync(join(dirname(path), to)), `${to} is not there`);
  }
  return links.find(([rel]) => rel === "next")?.[1];
}

/** Plays to the end, forward and back, the knob, and the check. */
async function lesson(path) {
  const { page, seen } = await open(browser, path, { viewport: { width: 1280, height: 720 } }, still);
  const data = JSON.parse(await page.locator("#lesson script").textContent());
  assert.ok(data.knob.positions.length >= 7, "a knob has seven positions at least");
  assert.ok((await page.locator(".answer .lead").boundingBox()).y < 300);
  await laidOut(page, path, 1280);
  next.set(basename(path), await walked(page, path));
  // The space bar plays; at the end the clock stands still at the longest time.
  const begin = await stage(page);
  await page.keyboard.press("Space");
  await page.clock.runFor(3000);
  assert.ok(await stage(page) !== begin, "nothing moves");
  await page.clock.runFor(12_000);
  assert.equal(await page.locator("#clock").inputValue(), "1000");
  for (const text of await page.locator(".scene .clock").allTextContents()) assert.match(text, /^done: /);
  assert.ok(!(await page.locator("#play").getAttribute("class") ?? "").includes("playing"));
  // Back to the start, steps forward, and the same steps back.
  await page.keyboard.press("Home");
  assert.ok(await stage(page) === begin, "the start is not the start again");
  const states = [begin];
  for (let k = 0; k < 6; k++) {
    await page.keyboard.press("ArrowRight");
    states.push(await stage(page));
  }
  assert.ok(states[1] !== states[0], "a step changes nothing");
  for (let k = 5; k >= 0; k--) {
    await page.keyboard.press("ArrowLeft");
    assert.ok(await stage(page) === states[k], `step ${k} back is not what it was`);
  }
  // Each position of the knob has its own figures, and its pictures start.
  const now = new Set();
  for (let index = 0; index < data.knob.positions.length; index++) {
    await page.locator("#knob").fill(String(index));
    now.add(await page.locator("#now").textContent());
    assert.ok(await page.locator(".scene").count() > 0);
  }
  assert.equal(now.size, data.knob.positions.length);
  // The check: a wrong answer is told so, the right one too.
  const { choice, number } = data.check;
  const verdict = page.locator("#check .verdict");
  const answer = async (value) => {
    if (choice) await page.locator(`#check input[value="${value}"]`).check();
    else await page.locator("#check input").fill(String(value));
    await page.locator("#check button").click();
    return verdict.textContent();
  };
  const [wrong, right] = choice ? [choice[1] === 0 ? 1 : 0, choice[1]] : [number[0] * 1.5 + 1, number[0]];
  assert.match(await answer(wrong), /^Not quite/);
  assert.match(await answer(right), /^Right/);
  assert.deepEqual(seen.complaints, []);
  assert.equal(seen.requests.length, 1, seen.requests.join(" "));
  await page.context().close();
  // Narrow and dark: nothing sticks out, nothing complains.
  const narrow = await open(browser, path, { viewport: { width: 390, height: 800 }, colorScheme: "dark" }, still);
  const over = await tooWide(narrow.page);
  assert.ok(over <= 0, `${path} is ${over} px too wide at 390 px`);
  await laidOut(narrow.page, path, 390);
  const way = await narrow.page.locator("nav.course").first().boundingBox();
  assert.ok(way.height < 30, `the way through the course is ${way.height} px high at 390 px`);
  assert.deepEqual(narrow.seen.complaints, []);
  await narrow.page.context().close();
}

/** What every output has to hold, from the collective alone: the sum of what ranks have, or nothing to say. */
function sums(title, numbers) {
  const parts = numbers[0].length;
  const total = (part) => numbers.reduce((all, of) => all + of[part], 0);
  if (/^(all-reduce|reduce) /.test(title)) return (rank, column) => column < parts ? total(column) : null;
  if (/^reduce-scatter /.test(title)) return (rank) => total(rank);
  return () => null;
}

/** In the mode with numbers the end holds the right sums, or is told to be wrong. */
async function numbers(path) {
  const planted = basename(path).startsWith("wrong");
  const { page, seen } = await open(browser, path, { viewport: { width: 1280, height: 900 } }, still);
  const data = JSON.parse(await page.locator("#lesson script").textContent());
  await page.locator("#numbers").check();
  await page.keyboard.press("End");
  if (!planted) assert.deepEqual(await faults(page), [], path);
  const { scenes } = data.knob.positions[data.knob.shown];
  for (let index = 0; index < scenes.length; index++) {
    const scene = page.locator(".scene").nth(index);
    const found = await scene.locator(".verdict").textContent();
    if (planted) {
      assert.match(found, /^Wrong: rank 0 holds 30 in c0; it should be 60\.$/);
      continue;
    }
    assert.equal(found, "Every rank holds what it should.", `${path}: ${found}`);
    const expected = sums(data.title, scenes[index].numbers);
    const own = scenes[index].own.in_place ? 0 : scenes[index].own.columns.length;
    const cells = await scene.locator(".memory tbody tr").evaluateAll((rows, own) =>
      rows.map((row) => [...row.querySelectorAll("td:not(.port)")].slice(own).map((cell) => cell.dataset.state === "done" ? cell.textContent : null)), own);
    let checked = 0;
    cells.forEach((row, rank) => row.forEach((text, column) => {
      const value = expected(rank, column);
      if (text === null || value === null || scenes[index].promised[rank][column] === null) return;
      assert.equal(Number(text.replace(/[()]/g, "")), value, `${path}, rank ${rank}, column ${column}`);
      checked += 1;
    }));
    if (expected(0, 0) !== null) assert.ok(checked > 0, `${path}: no sum was looked at`);
  }
  assert.deepEqual(seen.complaints, []);
  await page.context().close();
}

try {
  const paths = process.argv.slice(2).filter((argument) => !argument.startsWith("--"));
  const check = process.argv.includes("--numbers") ? numbers : lesson;
  for (const path of paths) {
    try {
      await check(path);
    } catch (error) {
      error.message = `${path}: ${error.message}`;
      throw error;
    }
    assert.ok(readFileSync(path).length <= 1_000_000, `${path} is larger than a megabyte`);
  }
  // From page to page through all of the course.
  const starts = [...next.keys()].filter((name) => ![...next.values()].includes(name));
  assert.ok(next.size === 0 || starts.length === 1, `the course begins with ${starts}`);
  let way = 0;
  for (let name = starts[0]; name !== undefined; name = next.get(name)) way += 1;
  assert.equal(way, next.size);
  console.log(`${paths.length} ${process.argv.includes("--numbers") ? "algorithms end with the sums that they should" : "lessons play, step, turn and check"}`);
} finally {
  await browser.close();
}
