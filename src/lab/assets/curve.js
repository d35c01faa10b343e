// The curve: what is known of it so far as dots, what is not as rings on the axis.
"use strict";
const KINDS = {
  size: { label: "size", log: true },
  bucket: { label: "size of buckets", log: true },
  speed: { label: "speed of the slow GPU", log: false },
};

const three = (value) => String(Number(value.toPrecision(3)));

function sizeText(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (bytes >= 1024 && unit < 4) {
    bytes /= 1024;
    unit++;
  }
  return `${three(bytes)} ${units[unit]}`;
}

function timeText(us) {
  if (us >= 1e6) return `${three(us / 1e6)} s`;
  if (us >= 1e3) return `${three(us / 1e3)} ms`;
  return `${three(us)} µs`;
}

const placeText = (axis, at) => (axis === "speed" ? `${at} %` : sizeText(at));

// `curve`: axis, points (places), known (place → point), missing (place → why), at; `others`: curves of
// pinned states with their classes; `measure`: "busbw" or "time"; `choose` is called with a place.
function drawCurve(root, curve, others, measure, choose) {
  const [WIDE, HIGH] = [root.clientWidth || 800, root.clientWidth < 560 ? 260 : 320];
  const [LEFT, RIGHT, TOP, BOTTOM] = [64, 26, 30, 44];
  const NS = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(NS, "svg");
  svg.setAttribute("viewBox", `0 0 ${WIDE} ${HIGH}`);
  svg.setAttribute("role", "img");
  const put = (name, attributes, text) => {
    const element = document.createElementNS(NS, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== undefined) element.textContent = text;
    svg.append(element);
    return element;
  };
  const kind = KINDS[curve.axis];
  const value = (point) => (measure === "busbw" ? point.busbw_gbs : point.time_us);
  const lay = (x) => (kind.log ? Math.log2(Math.max(x, 1)) : x);
  const places = [...curve.points].sort((a, b) => a - b);
  const [low, high] = [lay(places[0]), lay(places[places.length - 1])];
  const X = (x) => LEFT + ((lay(x) - low) / (high - low || 1)) * (WIDE - LEFT - RIGHT);
  const all = [curve, ...others.map(([other]) => other)].flatMap((one) => [...one.known.values()]);
  const values = all.map(value).filter((v) => v > 0);
  // Times of collectives go over decades.
  const log = measure === "time" && curve.axis === "size";
  const most = Math.max(...values, 0) || 1;
  const least = log ? Math.min(...values, most) : 0;
  const up = (v) => (log ? Math.log10(Math.max(v, least)) : v);
  const [floor, roof] = log ? [Math.floor(up(least)), Math.max(Math.ceil(up(most)), Math.floor(up(least)) + 1)] : [0, most * 1.08];
  const Y = (v) => HIGH - BOTTOM - ((up(v) - floor) / (roof - floor)) * (HIGH - TOP - BOTTOM);
  const ground = HIGH - BOTTOM;
  const ticks = [];
  if (log) for (let power = floor; power <= roof; power++) ticks.push(10 ** power);
  else {
    const power = 10 ** Math.floor(Math.log10(roof / 4));
    const step = [1, 2, 5, 10].map((digit) => digit * power).find((size) => size >= roof / 6);
    for (let v = 0; v <= roof; v += step) ticks.push(v);
  }
  for (const tick of ticks) {
    const y = Math.round(Y(tick)) + 0.5;
    put("line", { class: "grid", x1: LEFT, x2: WIDE - RIGHT, y1: y, y2: y });
    put("text", { x: LEFT - 8, y: y + 4, "text-anchor": "end" }, measure === "busbw" ? three(tick) : timeText(tick));
  }
  put("text", { x: 4, y: 12 }, measure === "busbw" ? "bus bandwidth, GB/s" : "time");
  put("line", { class: "axis", x1: LEFT, x2: WIDE - RIGHT, y1: ground + 0.5, y2: ground + 0.5 });
  const every = Math.ceil(places.length / Math.max(2, Math.floor((WIDE - LEFT) / 84)));
  places.forEach((x, index) => {
    if (index % every) return;
    const anchor = X(x) > WIDE - 50 ? "end" : "middle";
    put("text", { x: anchor === "end" ? WIDE - 4 : X(x), y: ground + 18, "text-anchor": anchor }, placeText(curve.axis, x));
  });
  put("text", { x: WIDE - RIGHT, y: HIGH - 6, "text-anchor": "end" }, kind.label);
  const line = (one, name) => {
    const known = [...one.known.keys()].sort((a, b) => a - b).filter((x) => value(one.known.get(x)) > 0);
    const path = known.map((x, i) => `${i ? "L" : "M"}${X(x).toFixed(1)} ${Y(value(one.known.get(x))).toFixed(1)}`);
    if (path.length) put("path", { class: `line ${name}`, d: path.join("") });
  };
  for (const [other, name] of others) if (other.axis === curve.axis) line(other, name);
  line(curve, "");
  const at = X(curve.at);
  put("line", { class: "at", x1: at, x2: at, y1: TOP, y2: ground });
  for (const x of places) {
    const point = curve.known.get(x);
    const chosen = x === curve.at;
    let mark;
    if (point) {
      mark = put("circle", { class: chosen ? "selected" : "dot", cx: X(x), cy: Y(value(point)), r: chosen ? 6 : 4 });
    } else if (curve.missing.has(x)) {
      mark = put("path", { class: "none", d: `M${X(x) - 4} ${ground - 4}l8 8m0-8l-8 8` });
    } else {
      mark = put("circle", { class: "open", cx: X(x), cy: ground, r: 4 });
    }
    const title = document.createElementNS(NS, "title");
    const figure = point ? timeText(point.time_us) + (point.busbw_gbs ? `, ${three(point.busbw_gbs)} GB/s` : "") : curve.missing.get(x) ?? "not computed yet";
    title.textContent = `${placeText(curve.axis, x)}: ${figure}`;
    mark.append(title);
    mark.addEventListener("click", () => choose(x));
    if (point && chosen) {
      const text = measure === "busbw" ? `${three(value(point))} GB/s` : timeText(value(point));
      // On the side where the line is not.
      const next = curve.known.get(places[places.indexOf(x) + 1]);
      const right = at > LEFT + 100 && (at > WIDE - 120 || !next || value(next) > value(point));
      put("text", { class: "value", x: at + (right ? -12 : 12), y: Math.max(Y(value(point)) - 10, TOP + 4), "text-anchor": right ? "end" : "start" }, text);
    }
  }
  const done = places.filter((x) => curve.known.has(x)).length;
  svg.setAttribute("aria-label", `${kind.label} against ${measure === "busbw" ? "bus bandwidth" : "time"}, ${done} of ${places.length} points computed`);
  root.replaceChildren(svg);
}
