// The figure of each scene over all positions of the knob, on a scale of powers of ten where it needs one.
"use strict";

/** Draws the curve into `box`; `choose` is called with the position that is clicked. */
function curveView(knob, box, choose) {
  const names = [...new Set(knob.positions.flatMap((p) => p.figures.map((f) => f.of)))];
  const series = names.map((name) => knob.positions.map((p) => p.figures.find((f) => f.of === name)));
  const all = series.flat().filter((figure) => figure && figure.value > 0).map((figure) => figure.value);
  if (all.length < 2) { box.hidden = true; return { mark() {} }; }
  box.replaceChildren();
  const [width, height, bottom] = [Math.min(760, box.clientWidth), 204, 24];
  const left = 14 + Math.max(...series.flat().filter(Boolean).map((figure) => figure.text.length), 5) * 7.4;
  // Names stand at the ends of their lines, or above all where there is no room.
  const longest = 16 + Math.max(...names.map((name) => (name || knob.figure).length)) * 8.6;
  const beside = longest < width * 0.3;
  const last = 4 + knob.positions.at(-1).label.length * 3.7;
  const [top, right] = beside ? [14, Math.max(longest, last)] : [18 + 18 * names.length, Math.max(14, last)];
  const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${knob.figure} over ${knob.name}` }, box);
  let [low, high] = [Math.min(...all), Math.max(...all)];
  const logarithmic = high / low > 8;
  if (logarithmic) [low, high] = [Math.log10(low) - 0.08, Math.log10(high) + 0.08];
  else { low = low > high * 0.6 ? low - (high - low) * 0.3 : 0; high *= 1.04; }
  const y = (value) => top + (height - top - bottom) * (1 - ((logarithmic ? Math.log10(value) : value) - low) / (high - low || 1));
  const count = knob.positions.length;
  const x = (index) => left + (width - left - right) * (count < 2 ? 0.5 : index / (count - 1));
  const marker = shape("line", { class: "marker", y1: top, y2: height - bottom }, svg);
  const texts = new Map(series.flat().filter(Boolean).map((figure) => [figure.value, figure.text]));
  const marks = logarithmic
    ? Array.from({ length: Math.ceil(high) - Math.floor(low) + 1 }, (_, k) => 10 ** (Math.floor(low) + k)).filter((v) => Math.log10(v) >= low && Math.log10(v) <= high)
    : [];
  for (const value of marks) {
    shape("line", { class: "grid", x1: left, x2: width - right, y1: y(value), y2: y(value) }, svg);
    shape("text", { class: "mark", x: left - 8, y: y(value) + 4, "text-anchor": "end" }, svg).textContent = knob.unit === "ns" ? timeText(value) : digits(value);
  }
  // Without marks the ends are marked.
  if (marks.length < 2) for (const value of [Math.min(...all), Math.max(...all)]) {
    shape("text", { class: "mark", x: left - 8, y: y(value) + 4, "text-anchor": "end" }, svg).textContent = texts.get(value);
  }
  part("figcaption", "", box, `${knob.figure} over ${knob.name}`);
  // As many names of positions as have room.
  const widest = Math.max(...knob.positions.map((position) => position.label.length)) * 7.4 + 8;
  const each = Math.max(1, Math.ceil(widest * (count - 1) / (width - left - right)));
  knob.positions.forEach((position, index) => {
    if (index % each === 0) shape("text", { class: "mark", x: x(index), y: height - bottom + 16, "text-anchor": "middle" }, svg).textContent = position.label;
  });
  // Names at the right end keep apart from each other.
  const ends = series.map((line, k) => ({ k, at: y(line.findLast(Boolean).value) })).sort((a, b) => a.at - b.at);
  ends.forEach((end, n) => { if (n > 0) end.at = Math.max(end.at, ends[n - 1].at + 14); });
  const points = [];
  series.forEach((line, k) => {
    const known = line.map((figure, index) => figure && figure.value > 0 ? [x(index), y(figure.value)] : null).filter(Boolean);
    shape("polyline", { class: `line line${k % 7}`, points: known.map((p) => p.map((v) => v.toFixed(1)).join(",")).join(" ") }, svg);
    const at = beside ? { x: width - right + 8, y: ends.find((end) => end.k === k).at + 4 } : { x: 4, y: 14 + 18 * k };
    const name = shape("text", { class: `name line${k % 7}`, ...at }, svg);
    name.textContent = names[k] || knob.figure;
    line.forEach((figure, index) => {
      if (!figure || figure.value <= 0) return;
      const point = shape("circle", { class: `point line${k % 7}`, cx: x(index), cy: y(figure.value), r: 4 }, svg);
      shape("title", {}, point).textContent = `${names[k] || knob.figure}, ${knob.positions[index].label}: ${figure.text}`;
      points.push({ point, index });
    });
  });
  svg.addEventListener("click", (event) => {
    const at = (event.clientX - svg.getBoundingClientRect().left) / svg.getBoundingClientRect().width * width;
    choose(Math.max(0, Math.min(count - 1, Math.round((at - left) / (width - left - right) * (count - 1)))));
  });
  return {
    mark(index) {
      marker.setAttribute("x1", x(index));
      marker.setAttribute("x2", x(index));
      for (const { point, index: of } of points) point.setAttribute("r", of === index ? 6 : 3.5);
    },
  };
}
