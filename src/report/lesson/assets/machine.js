// A machine's drawing, whose links light up as they carry data.
"use strict";

/** Leaves title and legend of a drawing out, and the network where only nodes are busy. */
function crop(drawing, paths, lines) {
  const svg = drawing.querySelector("svg");
  const boxes = (list) => list.map((element) => element.getBBox());
  const frames = boxes([...svg.querySelectorAll(':scope > rect[fill="#f8f9fb"]')]);
  if (frames.length === 0) return;
  const all = [...frames, ...boxes([...svg.querySelectorAll(":scope > g:not([transform]) > rect, path[data-line]")])];
  const busy = boxes(lines.map(([line]) => paths.get(line)).filter(Boolean));
  const top = Math.min(...frames.map((b) => b.y));
  const inside = busy.every((b) => b.y >= top - 1);
  const [x1, x2] = [Math.min(...all.map((b) => b.x)), Math.max(...all.map((b) => b.x + b.width))];
  const [y1, y2] = [inside ? top : Math.min(...all.map((b) => b.y)), Math.max(...all.map((b) => b.y + b.height))];
  const margin = 14;
  svg.setAttribute("viewBox", `${x1 - margin} ${y1 - margin} ${x2 - x1 + 2 * margin} ${y2 - y1 + 2 * margin}`);
  svg.removeAttribute("width");
  svg.removeAttribute("height");
}

/** Draws a scene of a machine into `box`. */
function machineView(scene, box, settings, whole, { drawings, heat }) {
  const drawing = part("div", "drawing machine scroll", box);
  drawing.innerHTML = drawings[scene.drawing];
  const paths = new Map();
  for (const path of drawing.querySelectorAll("path[data-line]")) paths.set(Number(path.dataset.line), path);
  for (const path of paths.values()) path.style.stroke = "#e3e6ea";
  crop(drawing, paths, scene.lines);
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
        const use = ended ? 0 : (scene.uses[uses][bin] ?? 0) / 1000;
        const path = paths.get(line);
        if (!path) return;
        path.style.stroke = use > 0 ? heat[Math.round(use * (heat.length - 1))] : "#d5d9df";
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
