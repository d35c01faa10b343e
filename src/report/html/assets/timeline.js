// Draws the timeline on a canvas: lanes of spans, zoom, pan, tooltip.
// Data: see `timeline_view.rs`. All times are picoseconds.
"use strict";
function showTimeline(root) {
  const source = root.querySelector("script");
  if (!source) return;
  const data = JSON.parse(source.textContent);
  const canvas = root.querySelector("canvas");
  const tip = root.querySelector(".tip");
  const pen = canvas.getContext("2d");

  // Spans of a lane as columns, so that a view of many is found by bisection.
  const lanes = data.lanes.map((lane) => {
    const count = lane.spans.length / 5;
    const out = { rank: lane.rank, name: lane.name, count, kind: [], label: [], bytes: [], start: [], end: [] };
    let now = 0;
    for (let i = 0; i < count; i++) {
      const [kind, label, bytes, gap, length] = lane.spans.slice(i * 5, i * 5 + 5);
      out.kind.push(kind);
      out.label.push(label);
      out.bytes.push(bytes);
      out.start.push(now + gap);
      now += gap + length;
      out.end.push(now);
    }
    return out;
  });
  const lastEnd = lanes.reduce((end, lane) => Math.max(end, lane.end[lane.count - 1]), data.end);
  const END = Math.max(lastEnd, 1);

  // Rows from top to bottom: link use by family, then each rank's name and its lanes.
  const LANE = Math.max(6, Math.min(16, Math.floor(560 / lanes.length)));
  const AXIS = 26;
  const rows = [];
  let height = 4;
  const add = (row, size) => {
    rows.push({ ...row, y: height, size });
    height += size;
  };
  data.uses.slice(0, 4).forEach(([name, values]) => add({ use: values, name }, 34));
  let rank = -1;
  for (const lane of lanes) {
    if (lane.rank !== rank) {
      rank = lane.rank;
      add({ title: data.ranks[rank] }, 22);
    }
    add({ lane, name: lane.name }, LANE);
  }
  height += 6;
  const viewHeight = Math.min(height, 780);
  // Room for the thumb of a view that scrolls.
  const MARGIN = viewHeight < height ? 10 : 0;

  const BEGIN = Math.min(data.begin, END - 1);

  let from = BEGIN;
  let to = END;
  let scroll = 0;
  // Of the canvas, and of it without the margin.
  let full = 0;
  let width = 0;
  let gutter = 0;
  let colours = {};

  const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const readColours = () => {
    colours = { kinds: data.looks.map(([name]) => css("--" + name)) };
    for (const name of ["ink", "muted", "line", "card", "faint", "other"]) colours[name] = css("--" + name);
  };

  const UNITS = [[1e12, "s"], [1e9, "ms"], [1e6, "µs"], [1e3, "ns"], [1, "ps"]];
  const unitOf = (time) => UNITS.find(([size]) => time >= size) || UNITS[4];
  const timeText = (time, digits = 4) => {
    const [size, unit] = unitOf(Math.abs(time));
    return `${Number((time / size).toPrecision(digits))} ${unit}`;
  };
  const sizeText = (bytes) => {
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let unit = 0;
    while (bytes >= 1023.5 && unit < 4) {
      bytes /= 1024;
      unit++;
    }
    return `${Number(bytes.toPrecision(3))} ${units[unit]}`;
  };

  const x = (time) => gutter + ((time - from) / (to - from)) * (width - gutter);
  const timeAt = (px) => from + ((px - gutter) / (width - gutter)) * (to - from);

  // The first index whose end is after `time`.
  const firstAfter = (ends, time) => {
    let low = 0;
    let high = ends.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (ends[middle] > time) high = middle;
      else low = middle + 1;
    }
    return low;
  };

  const shorten = (text, room) => {
    if (pen.measureText(text).width <= room) return text;
    let kept = text.length;
    while (kept > 1 && pen.measureText(text.slice(0, kept) + "…").width > room) kept--;
    return text.slice(0, kept) + "…";
  };

  function drawAxis() {
    pen.fillStyle = colours.card;
    pen.fillRect(0, 0, width, AXIS);
    pen.strokeStyle = colours.line;
    pen.fillStyle = colours.muted;
    pen.textAlign = "center";
    const span = to - from;
    const rough = span / Math.max(2, (width - gutter) / 110);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((digit) => digit * power).find((size) => size >= rough);
    const [size, unit] = unitOf(to);
    const digits = Math.max(0, -Math.floor(Math.log10(step / size) + 1e-9));
    for (let time = Math.ceil(from / step) * step; time <= to; time += step) {
      const at = Math.round(x(time)) + 0.5;
      pen.beginPath();
      pen.moveTo(at, AXIS - 5);
      pen.lineTo(at, viewHeight + AXIS);
      pen.stroke();
      const text = `${(time / size).toFixed(Math.min(digits, 12))} ${unit}`;
      const half = pen.measureText(text).width / 2;
      if (at - half > gutter - 40 && at + half < width) pen.fillText(text, at, 11);
    }
  }

  function drawSpans(lane, y, size) {
    const right = width;
    // What ends within a pixel is drawn once: with a million spans, most do.
    let covered = -1;
    for (let i = firstAfter(lane.end, from); i < lane.count && lane.start[i] < to; i++) {
      const start = Math.max(x(lane.start[i]), gutter);
      const end = Math.min(x(lane.end[i]), right);
      if (end <= covered) continue;
      pen.fillStyle = colours.kinds[lane.kind[i]];
      pen.fillRect(start, y, Math.max(end - start - (end - start > 4 ? 0.5 : 0), 0.7), size);
      covered = Math.max(end, start + 0.7);
      if (size >= 12 && end - start > 70) {
        pen.fillStyle = "#fff";
        pen.textAlign = "left";
        pen.font = "11px system-ui, sans-serif";
        if (data.looks[lane.kind[i]][2]) {
          const text = data.names[lane.label[i]];
          pen.fillText(shorten(text, end - start - 8), start + 4, y + size / 2 + 0.5);
        }
      }
    }
  }

  // How long the lane's run was, where several are on one axis.
  function drawGround(end, y, size) {
    const [left, right] = [Math.max(x(0), gutter), Math.min(x(end), width)];
    if (right < left) return;
    pen.fillStyle = colours.faint;
    pen.fillRect(left, y, right - left, size);
    pen.fillStyle = colours.ink;
    pen.fillRect(right - 1, y, 1, size);
  }

  function drawUse(row, y) {
    const base = y + row.size - 4;
    const tall = row.size - 8;
    const shape = (time, value) => [x(time), base - Math.min(value / 1000, 1) * tall];
    pen.fillStyle = colours.other;
    pen.beginPath();
    const first = Math.max(0, Math.floor(from / data.bin));
    pen.moveTo(x(first * data.bin), base);
    let last = first * data.bin;
    for (let bin = first; bin < row.use.length && bin * data.bin < to; bin++) {
      last = Math.min((bin + 1) * data.bin, END);
      pen.lineTo(...shape(bin * data.bin, row.use[bin]));
      pen.lineTo(...shape(last, row.use[bin]));
    }
    pen.lineTo(x(last), base);
    pen.fill();
    pen.strokeStyle = colours.line;
    pen.beginPath();
    pen.moveTo(gutter, Math.round(base) + 0.5);
    pen.lineTo(width, Math.round(base) + 0.5);
    pen.stroke();
  }

  function draw() {
    const ratio = window.devicePixelRatio || 1;
    full = root.clientWidth - 2;
    width = full - MARGIN;
    gutter = width < 560 ? 96 : 150;
    const total = viewHeight + AXIS;
    canvas.width = Math.round(full * ratio);
    canvas.height = Math.round(total * ratio);
    canvas.style.height = `${total + 2}px`;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.fillStyle = colours.card;
    pen.fillRect(0, 0, full, total);
    pen.textBaseline = "middle";
    pen.font = "12px system-ui, sans-serif";
    drawAxis();

    pen.save();
    pen.beginPath();
    pen.rect(0, AXIS, width, viewHeight);
    pen.clip();
    const visible = rows.filter((row) => row.y + row.size > scroll && row.y < scroll + viewHeight);
    pen.save();
    pen.beginPath();
    pen.rect(gutter, AXIS, width - gutter, viewHeight);
    pen.clip();
    for (const row of visible) {
      const y = AXIS + row.y - scroll;
      const end = row.lane && data.ends[row.lane.rank];
      if (end) drawGround(end, y, row.size);
      if (row.lane) drawSpans(row.lane, y, Math.max(row.size - (row.size > 8 ? 2 : 1), 1));
      else if (row.use) drawUse(row, y);
    }
    pen.restore();
    for (const row of visible) {
      const y = AXIS + row.y - scroll;
      if (row.title) {
        pen.font = "600 12px system-ui, sans-serif";
        pen.textAlign = "left";
        pen.fillStyle = colours.ink;
        const text = shorten(row.title, width - 20);
        const room = pen.measureText(text).width + 12;
        if (room > gutter) {
          pen.fillStyle = colours.card;
          pen.fillRect(gutter, y + 3, room - gutter, row.size - 5);
          pen.fillStyle = colours.ink;
        }
        pen.fillText(text, 8, y + row.size / 2 + 1);
      } else if (row.use || row.size >= 11) {
        pen.font = `${row.use ? 12 : 11}px system-ui, sans-serif`;
        pen.textAlign = "right";
        pen.fillStyle = row.use ? colours.ink : colours.muted;
        const text = row.use ? `${row.name} use` : row.name;
        pen.fillText(shorten(text, gutter - 16), gutter - 8, y + row.size / 2);
      }
    }
    pen.restore();
    if (viewHeight < height) {
      const size = (viewHeight * viewHeight) / height;
      pen.fillStyle = colours.muted;
      pen.fillRect(full - 7, AXIS + (scroll / height) * viewHeight, 5, size);
    }
  }

  let waiting = false;
  const redraw = () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      draw();
    });
  };

  // Keeps the view inside the run, at most a picosecond a pixel.
  function show(start, end) {
    const span = Math.min(Math.max(end - start, 1000), END - BEGIN);
    from = Math.min(Math.max(start, BEGIN), END - span);
    to = from + span;
    redraw();
  }
  function zoom(factor, at) {
    const time = Math.min(Math.max(at, from), to);
    show(time - (time - from) * factor, time + (to - time) * factor);
  }
  function pan(pixels, lines) {
    scroll = Math.min(Math.max(scroll + lines, 0), height - viewHeight);
    const shift = (pixels / (width - gutter)) * (to - from);
    show(from + shift, to + shift);
  }

  function spanAt(px, py) {
    if (px < gutter || py < AXIS) return null;
    const y = py - AXIS + scroll;
    const row = rows.find((row) => y >= row.y && y < row.y + row.size);
    if (!row) return null;
    const time = timeAt(px);
    if (row.use) {
      const value = row.use[Math.floor(time / data.bin)];
      return value === undefined ? null : `busiest ${row.name} link: ${(value / 10).toFixed(1)} %`;
    }
    if (!row.lane) return null;
    const lane = row.lane;
    const i = firstAfter(lane.end, time);
    if (i >= lane.count || lane.start[i] > time) return null;
    const length = lane.end[i] - lane.start[i];
    const lines = [
      `${data.names[lane.label[i]]}: ${data.looks[lane.kind[i]][1]}`,
      `${data.ranks[lane.rank]}, ${lane.name}`,
      `${timeText(length)}, from ${timeText(lane.start[i], 7)}`,
    ];
    if (lane.bytes[i] > 0) {
      // Bytes per picosecond are thousands of GB/s.
      const rate = length > 0 ? ` at ${Number(((lane.bytes[i] / length) * 1000).toPrecision(3))} GB/s` : "";
      lines.push(sizeText(lane.bytes[i]) + rate);
    }
    return lines.join("\n");
  }
  function hover(px, py) {
    const text = spanAt(px, py);
    tip.hidden = !text;
    if (!text) return;
    tip.textContent = text;
    const top = canvas.offsetTop;
    const left = px + 16 + tip.offsetWidth > width ? px - tip.offsetWidth - 12 : px + 16;
    tip.style.left = `${Math.max(left, 0)}px`;
    tip.style.top = `${top + py + 14}px`;
  }

  // The wheel scrolls the page, unless the canvas was asked for it.
  canvas.addEventListener("wheel", (event) => {
    const asked = event.ctrlKey || event.metaKey || event.shiftKey || document.activeElement === canvas;
    if (!asked) return;
    event.preventDefault();
    const sideways = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;
    if (Math.abs(sideways) > Math.abs(event.shiftKey ? 0 : event.deltaY)) pan(sideways, 0);
    else zoom(Math.exp(Math.max(-80, Math.min(80, event.deltaY)) / 300), timeAt(event.offsetX));
    hover(event.offsetX, event.offsetY);
  }, { passive: false });

  // Fingers and mouse alike: one drags, two pinch.
  const held = new Map();
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    held.set(event.pointerId, [event.offsetX, event.offsetY]);
    tip.hidden = true;
    canvas.style.cursor = "grabbing";
  });
  canvas.addEventListener("pointermove", (event) => {
    const before = held.get(event.pointerId);
    if (!before) return hover(event.offsetX, event.offsetY);
    held.set(event.pointerId, [event.offsetX, event.offsetY]);
    if (held.size === 1) return pan(before[0] - event.offsetX, before[1] - event.offsetY);
    const other = [...held].find(([id]) => id !== event.pointerId)[1];
    const was = Math.max(Math.abs(before[0] - other[0]), 8);
    const is = Math.max(Math.abs(event.offsetX - other[0]), 8);
    zoom(was / is, timeAt((event.offsetX + other[0]) / 2));
  });
  for (const name of ["pointerup", "pointercancel"]) {
    canvas.addEventListener(name, (event) => {
      held.delete(event.pointerId);
      canvas.style.cursor = "";
    });
  }
  canvas.addEventListener("pointerleave", () => (tip.hidden = true));
  canvas.addEventListener("keydown", (event) => {
    const middle = (from + to) / 2;
    const actions = {
      ArrowLeft: () => pan(-80, 0),
      ArrowRight: () => pan(80, 0),
      ArrowUp: () => pan(0, -40),
      ArrowDown: () => pan(0, 40),
      "+": () => zoom(0.7, middle),
      "=": () => zoom(0.7, middle),
      "-": () => zoom(1.4, middle),
      0: () => show(BEGIN, END),
    };
    if (!actions[event.key] || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    actions[event.key]();
  });
  root.querySelector(".buttons").addEventListener("click", (event) => {
    const middle = (from + to) / 2;
    const actions = { in: () => zoom(0.6, middle), out: () => zoom(1.6, middle), fit: () => show(BEGIN, END) };
    actions[event.target.dataset.do]?.();
  });

  const restyle = () => {
    readColours();
    draw();
  };
  // Until the timeline is taken out of the page.
  const gone = new AbortController();
  const listening = { signal: gone.signal };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", restyle, listening);
  window.addEventListener("beforeprint", restyle, listening);
  const observer = new ResizeObserver(() => {
    if (root.isConnected) return redraw();
    gone.abort();
    observer.disconnect();
  });
  observer.observe(root);
  restyle();
}
for (const root of document.querySelectorAll(".timeline")) showTimeline(root);
