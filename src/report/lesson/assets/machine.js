// A machine's drawing, whose links light up as they carry data.
"use strict";

/** Letters in a drawing, and how wide one is, in pixels. */
const NAME = 12, NAME_WIDE = 7.3;

/** Lines of a drawing that carry anything in any scene of the lesson: what plays a part. */
function busyLines(drawing) {
  const scenes = lesson.knob.positions.flatMap((position) => position.scenes).filter((scene) => scene.drawing === drawing);
  return new Set(scenes.flatMap((scene) => scene.lines.filter(([, , uses]) => scene.uses[uses].some((use) => use > 0)).map(([line]) => line)));
}

/** The number that ends a name. */
const numberOf = (text) => text.textContent.match(/\d+$/)?.[0] ?? "";

/** Whether a word fits into a box of a drawing that is so much wider on the page. */
const fitsIn = (word, box, sx) => word.length * NAME_WIDE <= box.width * sx - 2;

/** Rows of a drawing by their height in it: their tiles, and what is written. Where names do not fit, numbers do, and
 *  the row's kind stands once above it; where numbers do not fit either, they stand below. */
function rowsOf(tiles, sx) {
  const rows = new Map();
  for (const tile of tiles.filter((one) => one.text)) {
    const known = rows.get(tile.box.y);
    if (known) known.row.push(tile); else rows.set(tile.box.y, { row: [tile] });
  }
  for (const known of rows.values()) {
    const { row } = known;
    const narrow = row.some((tile) => !fitsIn(numberOf(tile.text), tile.box, sx));
    known.written = row.every((tile) => fitsIn(tile.text.textContent, tile.box, sx)) ? "names"
      : narrow && row.every((tile) => numberOf(tile.text)) ? "below" : "numbers";
  }
  return rows;
}

/** Sets the part of a drawing that plays into `box`: its shapes scaled to the room, its words in letters that can be read. */
function placeDrawing(drawing, box, busy) {
  const source = drawing.querySelector("svg");
  const frames = [...source.querySelectorAll(':scope > rect[fill="#f8f9fb"]')];
  const tiles = [...source.querySelectorAll(":scope > g:not([transform])")].map((group) => ({ group, box: group.querySelector("rect").getBBox(), text: group.querySelector("text") }));
  const lines = [...source.querySelectorAll("path[data-line]")].map((path) => {
    const ends = [path.getPointAtLength(0), path.getPointAtLength(path.getTotalLength())];
    return { path, ends, busy: busy.has(Number(path.dataset.line)) };
  });
  const captions = [...source.querySelectorAll(":scope > text[paint-order]")];
  const meets = ({ x, y }, b) => x >= b.x - 2 && x <= b.x + b.width + 2 && y >= b.y - 2 && y <= b.y + b.height + 2;
  const ends = lines.filter((line) => line.busy).flatMap((line) => line.ends);
  const playing = tiles.filter((tile) => ends.some((end) => meets(end, tile.box)));
  const shown = playing.length > 0 ? playing : tiles;
  // All rows between the first and the last that play.
  const margin = 12;
  let top = Math.min(...shown.map((tile) => tile.box.y)) - 2 * margin;
  let bottom = Math.max(...shown.map((tile) => tile.box.y + tile.box.height), ...lines.filter((line) => line.busy).map(({ path }) => path.getBBox()).map((b) => b.y + b.height)) + margin;
  const within = (b) => b.y >= top && b.y + b.height <= bottom;
  const kept = tiles.filter((tile) => within(tile.box));
  let x1 = Math.min(...kept.map((tile) => tile.box.x)) - margin;
  let x2 = Math.max(...kept.map((tile) => tile.box.x + tile.box.width)) + margin;
  // Edges of frames that are near belong to the picture.
  for (const { x, y, width, height } of frames.map((frame) => frame.getBBox())) {
    if (y + height < top || y > bottom) continue;
    const near = (edge, bound) => Math.abs(edge - bound) <= 3 * margin;
    if (near(y, top)) top = Math.min(top, y - 2);
    if (near(y + height, bottom)) bottom = Math.max(bottom, y + height + 2);
    if (near(x, x1)) x1 = Math.min(x1, x - 2);
    if (near(x + width, x2)) x2 = Math.max(x2, x + width + 2);
  }
  const room = box.clientWidth;
  const tall = Math.min(...kept.filter((tile) => tile.text).map((tile) => tile.box.height), 40);
  const sx = Math.min(room / (x2 - x1), 1.2);
  const sy = Math.max(sx, Math.min(1, Math.max(260, window.innerHeight * 0.5) / (bottom - top)), (NAME + 4) / tall);
  const rows = rowsOf(kept, sx);
  // Room for what stands above the first row and below the last.
  const [highest, lowest] = [Math.min(...rows.keys()), Math.max(...rows.keys())];
  const above = rows.size > 0 && rows.get(highest).written !== "names" ? Math.max(0, NAME + 8 - (highest - top) * sy) : 0;
  const below = rows.size > 0 && rows.get(lowest).written === "below" ? NAME : 0;
  const [wide, high] = [(x2 - x1) * sx, (bottom - top) * sy + above + below];
  const at = (x, y) => [(x - x1) * sx, (y - top) * sy + above];
  const svg = shape("svg", { width: wide, height: high, viewBox: `0 0 ${wide} ${high}`, role: "img", "aria-label": "The machine" });
  const shapes = shape("g", { transform: `translate(0 ${above}) scale(${sx} ${sy}) translate(${-x1} ${-top})` }, svg);
  const words = shape("g", {}, svg);
  for (const frame of frames) shapes.append(frame);
  for (const { path, ends: both, busy: plays } of lines) {
    if (plays || both.every(({ y }) => y >= top && y <= bottom)) shapes.append(path);
  }
  for (const { group } of kept) {
    group.querySelector("text")?.remove();
    shapes.append(group);
  }
  for (const element of shapes.querySelectorAll("rect, path")) element.setAttribute("vector-effect", "non-scaling-stroke");
  const taken = kept.filter((tile) => tile.text).map(({ box: b }) => [...at(b.x, b.y), ...at(b.x + b.width, b.y + b.height)]);
  const put = (text, x, y, anchor, free) => {
    const length = text.length * NAME_WIDE;
    const from = anchor === "middle" ? x - length / 2 : x;
    const own = [from, y - NAME * 0.75, from + length, y + NAME * 0.25];
    const clear = own[0] >= 0 && own[2] <= wide && own[1] >= 0 && taken.every((b) => own[0] >= b[2] || own[2] <= b[0] || own[1] >= b[3] || own[3] <= b[1]);
    if (free && !clear) return false;
    if (free) taken.push(own);
    shape("text", { x: x.toFixed(1), y: y.toFixed(1), "text-anchor": anchor, "font-size": NAME, class: free ? "free" : "" }, words).textContent = text;
    return true;
  };
  const kinds = [];
  for (const [y, { row, written }] of rows) {
    for (const { box: b, text } of row) {
      const word = written === "names" ? text.textContent : numberOf(text);
      const [x, middle] = at(b.x + b.width / 2, b.y + b.height / 2);
      if (written === "below") put(word, x, middle + b.height * sy / 2 + NAME, "middle", true);
      else if (word && fitsIn(word, b, sx)) put(word, x, middle + NAME * 0.36, "middle", false);
    }
    const kind = [...new Set(row.map(({ text }) => text.textContent.replace(/ ?\d+$/, "")))].join(", ");
    if (written !== "names" && kind) kinds.push([kind, Math.min(...row.map((tile) => tile.box.x)), y]);
  }
  for (const caption of captions) {
    const [x, y] = [Number(caption.getAttribute("x")), Number(caption.getAttribute("y"))];
    if (y < top || y > bottom + margin) continue;
    // What stands at the left edge stays there.
    const place = at(x, y);
    const anchor = caption.getAttribute("text-anchor");
    if (put(caption.textContent, Math.max(2, place[0]), Math.max(NAME, place[1]), anchor, true)) continue;
    // The name of a row that has no room beside it stands above it.
    const beside = [...rows].find(([begin, { row }]) => y >= begin - 4 && y <= begin + row[0].box.height + 4);
    if (anchor !== "start" || !beside || kinds.some(([, , begin]) => begin === beside[0])) continue;
    kinds.push([caption.textContent, Math.min(...beside[1].row.map((tile) => tile.box.x)), beside[0]]);
  }
  for (const [kind, x, y] of kinds) {
    // Above its row, or below it where there is no room.
    const [left, begin] = at(x, y);
    const end = at(x, y + rows.get(y).row[0].box.height)[1];
    const free = (line) => {
      for (let right = left; right < wide; right += 20) if (put(kind, right, line, "start", true)) return true;
      return false;
    };
    if (!free(begin - 5)) free(end + NAME + 1);
  }
  drawing.replaceChildren(svg);
}

/** Draws a scene of a machine into `box`. */
function machineView(scene, box, settings, whole, { drawings, heat }) {
  const drawing = part("div", "drawing machine", box);
  drawing.innerHTML = drawings[scene.drawing];
  const paths = new Map();
  for (const path of drawing.querySelectorAll("path[data-line]")) paths.set(Number(path.dataset.line), path);
  for (const path of paths.values()) path.style.stroke = "#d5d9df";
  placeDrawing(drawing, box, busyLines(scene.drawing));
  const tips = scene.lines.map(([line]) => {
    const path = paths.get(line);
    return path ? shape("title", {}, path) : null;
  });
  // Before it is played the whole operation is shown: what each link carries on average.
  const bins = Math.max(1, scene.end / scene.bin);
  const mean = scene.uses.map((uses) => uses.reduce((all, use) => all + use, 0) / bins / 1000);
  const busiest = part("p", "busiest", box);
  const list = part("div", "progress", box);
  const bars = scene.progress.map(([name]) => {
    const row = part("div", "row", list);
    // Of long names the end tells them apart.
    part("span", "of", row, name.split("/").slice(-2).join("/")).title = name;
    return part("span", "fill", part("span", "track", row));
  });
  return {
    draw(now) {
      const ended = now >= scene.end;
      const begun = now > 0;
      const bin = Math.floor(now / scene.bin);
      let most = null;
      scene.lines.forEach(([line, rate, uses], index) => {
        const use = ended ? 0 : begun ? (scene.uses[uses][bin] ?? 0) / 1000 : Math.min(1, mean[uses]);
        const path = paths.get(line);
        if (!path) return;
        path.style.stroke = use > 0 ? heat[Math.round(use * (heat.length - 1))] : "#d5d9df";
        tips[index].textContent = `${digits(use * rate)} of ${digits(rate)} GB/s`;
        if (use > 0 && (most === null || use > most[0])) most = [use, rate];
      });
      const figures = most === null ? "" : `${digits(most[0] * most[1])} of ${digits(most[1])} GB/s (${Math.round(most[0] * 100)} %)`;
      busiest.textContent = ended ? `Done after ${scene.took}.`
        : most === null ? "Nothing moves: kernels start, or data is on its way."
        : begun ? `Busiest link: ${figures}.` : `On average the busiest link carries ${figures}.`;
      scene.progress.forEach(([, parts], index) => {
        const at = now / scene.bin;
        const [before, after] = [parts[Math.floor(at) - 1] ?? 0, parts[Math.floor(at)] ?? 1000];
        bars[index].style.width = `${ended ? 100 : (before + (after - before) * (at - Math.floor(at))) / 10}%`;
      });
    },
    stops: scene.steps,
  };
}
