// What streams do when: bars that fill as time passes.
"use strict";

/** Draws a scene of lanes into `box`; `whole` is the end of the longest scene on the same axis. */
function lanesView(scene, box, settings, whole) {
  const { lanes, looks, words } = scene;
  const drawing = part("div", "drawing", box);
  const width = drawing.clientWidth;
  // Names stand beside their lanes, or above them where there is no room.
  const beside = width >= 620;
  const height = settings.stacked ? 15 : lanes.length > 24 ? 14 : 24;
  const gap = settings.stacked ? 2 : 4;
  const above = beside ? 0 : 18;
  const pitch = height + gap + above;
  // As wide as the longest name of all scenes: their axes are one.
  const left = beside ? 16 + settings.longest * 7.8 : 1;
  const right = width - 8;
  const scale = (nanos) => left + nanos / whole * (right - left);
  const bottom = lanes.length * pitch;
  const svg = shape("svg", { viewBox: `0 0 ${width} ${bottom + 24}`, class: "lanes", role: "img", "aria-label": "What streams do when" });
  drawing.append(svg);
  lanes.forEach((lane, row) => {
    const y = row * pitch + above;
    shape("rect", { class: "ground", x: left, y, width: right - left, height, rx: 3 }, svg);
    const name = beside ? { x: left - 8, y: y + height / 2 + 4, "text-anchor": "end" } : { x: left + 4, y: y - 4 };
    shape("text", { class: "lane", ...name }, svg).textContent = lane.name;
    for (const [look, begin, lasts, word] of lane.spans) {
      const x = scale(begin), wide = Math.max(0.8, scale(begin + lasts) - x);
      const bar = shape("rect", { x: x.toFixed(1), y, width: wide.toFixed(1), height, rx: 2, style: `fill: var(--${looks[look][0]})` }, svg);
      const text = words[word];
      shape("title", {}, bar).textContent = `${text || looks[look][1]}, ${timeText(begin)} to ${timeText(begin + lasts)} (${timeText(lasts)})`;
      if (text && height > 14 && wide > text.length * 7.8 + 4) {
        shape("text", { class: "word", x: x + wide / 2, y: y + height / 2 + 4, "text-anchor": "middle" }, svg).textContent = text;
      }
    }
  });
  // Once time has begun, what has not come yet is veiled; a line says where time is.
  const veil = shape("rect", { class: "veil", y: 0, height: bottom, width: 0, x: left }, svg);
  const line = shape("line", { class: "head", y1: 0, y2: bottom + 4 }, svg);
  const marks = right - left < 400 ? 2 : 4;
  for (let k = 0; k <= marks; k++) {
    const at = whole * k / marks;
    shape("text", { class: "mark", x: scale(at), y: bottom + 16, "text-anchor": k === 0 ? "start" : k === marks ? "end" : "middle" }, svg).textContent = timeText(at);
  }
  const used = [...new Set(lanes.flatMap((lane) => lane.spans.map((span) => span[0])))].sort((a, b) => a - b);
  const legend = part("ul", "legend", box);
  for (const look of used) {
    const entry = part("li", "", legend);
    part("span", "swatch", entry).style.background = `var(--${looks[look][0]})`;
    entry.append(looks[look][1]);
  }
  const stops = [...new Set(lanes.flatMap((lane) => lane.spans.map(([, begin, lasts]) => begin + lasts)))].sort((a, b) => a - b);
  // So many that a key press is an event that can be seen.
  const each = Math.ceil(stops.length / 60) || 1;
  return {
    draw(now) {
      const x = scale(Math.min(now, whole));
      veil.setAttribute("x", x.toFixed(1));
      veil.setAttribute("width", now > 0 ? Math.max(0, right - x).toFixed(1) : 0);
      line.setAttribute("x1", x.toFixed(1));
      line.setAttribute("x2", x.toFixed(1));
    },
    stops: stops.filter((stop, index) => index % each === each - 1 || index === stops.length - 1),
  };
}
