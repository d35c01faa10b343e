// What all pictures of a lesson share: making elements, and writing numbers.
"use strict";

const NAMESPACE = document.querySelector("svg").namespaceURI;

/** An SVG element with attributes. */
function shape(name, attributes, parent) {
  const element = document.createElementNS(NAMESPACE, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (parent) parent.append(element);
  return element;
}

/** An HTML element with a class and text. */
function part(name, className, parent, text) {
  const element = document.createElement(name);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  if (parent) parent.append(element);
  return element;
}

const digits = (value) => value === 0 ? "0" : Number(value.toPrecision(3)).toString();

/** Nanoseconds as people write them. */
function timeText(nanos) {
  for (const [unit, of] of [["s", 1e9], ["ms", 1e6], ["µs", 1e3]]) {
    if (nanos >= of) return `${digits(nanos / of)} ${unit}`;
  }
  return `${digits(nanos)} ns`;
}

/** Bytes in powers of 1024. */
function bytesText(bytes) {
  for (const [unit, power] of [["GiB", 30], ["MiB", 20], ["KiB", 10]]) {
    if (bytes >= 2 ** power) return `${digits(bytes / 2 ** power)} ${unit}`;
  }
  return `${digits(bytes)} B`;
}

/** How far `now` is between two times, 0 to 1. */
const share = (now, from, to) => to > from ? Math.min(1, Math.max(0, (now - from) / (to - from))) : now >= to ? 1 : 0;

/** The index of the first of `list` for which `after` holds; all before it are false. */
function firstWhere(list, after) {
  let low = 0, high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (after(list[middle])) high = middle; else low = middle + 1;
  }
  return low;
}
