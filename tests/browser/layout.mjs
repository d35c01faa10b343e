// What is wrong with how a page is laid out: letters that are too small, words that lie on something or are cut.

/** The smallest letters, in pixels of the screen. */
const SMALLEST = 12;

/** Everything that is wrong with the page as it is now, in words. */
export const faults = (page) => page.evaluate((SMALLEST) => {
  const found = [];
  const seen = (element) => element.getClientRects().length > 0 && getComputedStyle(element).visibility !== "hidden";
  const word = (element) => JSON.stringify(element.textContent.trim().slice(0, 30));
  const place = (element) => element.closest("svg, table, section, nav, footer")?.getAttribute("class") ?? "page";
  const meet = (a, b, slack) => a.left < b.right - slack && b.left < a.right - slack && a.top < b.bottom - slack && b.top < a.bottom - slack;
  const width = document.documentElement.clientWidth;

  // Words of drawings: their size on the screen, inside the drawing, on no other word.
  for (const svg of document.querySelectorAll("main svg:not(.icon)")) {
    const frame = svg.getBoundingClientRect();
    const texts = [...svg.querySelectorAll("text")].filter((text) => text.textContent.trim() && seen(text)).map((text) => ({ text, box: text.getBoundingClientRect() }));
    for (const { text, box } of texts) {
      const matrix = text.getScreenCTM();
      const size = parseFloat(getComputedStyle(text).fontSize) * Math.min(Math.hypot(matrix.a, matrix.b), Math.hypot(matrix.c, matrix.d));
      if (size < SMALLEST - 0.05) found.push(`${place(text)}: ${word(text)} is ${size.toFixed(1)} px high`);
      if (box.left < Math.max(0, frame.left) - 2 || box.right > Math.min(width, frame.right) + 2) found.push(`${place(text)}: ${word(text)} is cut, ${box.left.toFixed(0)} to ${box.right.toFixed(0)} of ${frame.left.toFixed(0)} to ${frame.right.toFixed(0)}`);
    }
    texts.forEach((one, index) => {
      const other = texts.slice(index + 1).find((two) => meet(one.box, two.box, 2.5));
      if (other) found.push(`${place(one.text)}: ${word(one.text)} lies on ${word(other.text)}`);
    });
    // Names of chunks lie beside ranks and switches.
    const places = [...svg.querySelectorAll(".rank circle, .switch rect")].map((shape) => shape.getBoundingClientRect());
    for (const { text, box } of texts.filter(({ text }) => text.closest(".names"))) {
      if (places.some((shape) => meet(shape, box, 1.5))) found.push(`${word(text)} lies on a rank or a switch`);
    }
  }
  // Words of the page itself.
  const walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  const small = new Set();
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || element.closest("svg, script, style, noscript") || !seen(element)) continue;
    const size = parseFloat(getComputedStyle(element).fontSize);
    if (size < SMALLEST) small.add(`${element.tagName} ${element.className}: ${word(element)} is ${size} px high`);
  }
  found.push(...small);
  // Nothing is wider than the room it has.
  for (const element of document.querySelectorAll("main *")) {
    if (element.closest("svg") || !seen(element)) continue;
    const box = element.getBoundingClientRect();
    const name = `${element.tagName} ${element.className}`;
    if (box.right > width + 1) found.push(`${name} reaches ${box.right.toFixed(0)} px of ${width}`);
    const clips = /^(DIV|TD|TH|P|FIGURE|SECTION|ARTICLE|SPAN)$/.test(element.tagName) && getComputedStyle(element).display !== "inline";
    if (clips && element.textContent.trim() && element.scrollWidth > element.clientWidth + 1) found.push(`${name} has ${element.clientWidth} px for ${element.scrollWidth}: ${word(element)}`);
  }
  // The buttons lie over nothing.
  const [buttons, stage] = [".transport", "#stage"].map((name) => document.querySelector(name)?.getBoundingClientRect());
  if (buttons && stage && window.scrollY === 0 && meet(buttons, stage, 0)) found.push("the buttons lie over the pictures");
  return [...new Set(found)];
}, SMALLEST);
