// A machine's drawing, whose links light up as they carry data.
"use strict";

/** From pale over yellow to red, as the drawing's legend has it. */
function heat(use) {
  const stops = [[0, [200, 204, 210]], [0.5, [244, 200, 60]], [0.8, [233, 110, 40]], [1, [200, 25, 40]]];
  const upper = Math.max(1, stops.findIndex(([at]) => use <= at));
  const [low, high] = [stops[upper - 1] ?? stops[2], stops[upper] ?? stops[3]];
  const mix = Math.min(1, (use - low[0]) / (high[0] - low[0]));
  return `rgb(${low[1].map((value, k) => Math.round(value + (high[1][k] - value) * mix)).join(" ")})`;
}

/** Draws a scene of a machine into `box`. */
function machineView(scene, box, settings, whole, drawings) {
  const drawing = part("div", "drawing machine scroll", box);
  drawing.innerHTML = drawings[scene.drawing];
  const paths = new Map();
  for (const path of drawing.querySelectorAll("path[data-line]")) paths.set(Number(path.dataset.line), path);
  for (const path of paths.values()) path.style.stroke = "#e3e6ea";
  const tips = scene.lines.map(([line]) => {
    const path = paths.get(line);
    return path ? shape("title", {}, path) : null;
  });
  const busiest = part("p", "busiest", box);
  const list = part("div", "progress", box);
  const bars = scene.progress.map(([name]) => {
    const row = part("div", "row", list);
    part("span", "of", row, name);
    return part("span", "fill", part("span", "track", row));
  });
  return {
    draw(now) {
      const ended = now >= scene.end;
      const bin = Math.floor(now / scene.bin);
      let most = null;
      scene.lines.forEach(([line, rate, uses], index) => {
        const use = ended ? 0 : (uses[bin] ?? 0) / 1000;
        const path = paths.get(line);
        if (!path) return;
        path.style.stroke = use > 0 ? heat(use) : "#d5d9df";
        tips[index].textContent = `${digits(use * rate)} of ${digits(rate)} GB/s`;
        if (use > 0 && (most === null || use > most[0])) most = [use, rate];
      });
      busiest.textContent = ended ? `Done after ${scene.took}.`
        : most === null ? "Nothing moves: kernels start, or data is on its way."
        : `Busiest link: ${digits(most[0] * most[1])} of ${digits(most[1])} GB/s (${Math.round(most[0] * 100)} %).`;
      scene.progress.forEach(([, parts], index) => {
        const at = now / scene.bin;
        const [before, after] = [parts[Math.floor(at) - 1] ?? 0, parts[Math.floor(at)] ?? 1000];
        bars[index].style.width = `${ended ? 100 : (before + (after - before) * (at - Math.floor(at))) / 10}%`;
      });
    },
    stops: scene.steps,
  };
}
