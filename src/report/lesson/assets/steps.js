// Chunks that go between ranks, and what each rank holds.
"use strict";

/** Letters of names and the squares of chunks, in pixels of the screen. */
const LETTERS = 12.5, LETTER = 7.8, SQUARE = 14;
/** How wide a name is, in pixels of the screen. */
const nameWide = (() => {
  const pen = document.createElement("canvas").getContext("2d");
  return (text) => {
    pen.font = `600 ${LETTERS}px ${getComputedStyle(document.body).fontFamily}`;
    return pen.measureText(text).width;
  };
})();
/** How wide a column is whose name stands upright. */
const UPRIGHT = 14;

/** Whether lines between ranks on a circle cross each other. */
function crossing(places, wires, size) {
  const far = places.map((place) => Math.hypot(place.x - size[0] / 2, place.y - size[1] / 2));
  if (places.some((place) => place.switch) || Math.max(...far) - Math.min(...far) > 1) return false;
  const inside = (of, [a, b]) => a < of && of < b;
  const pairs = wires.map(([from, to]) => [Math.min(from, to), Math.max(from, to)]);
  return pairs.some((one, index) => pairs.slice(index + 1).some((two) => {
    const apart = two.every((end) => !one.includes(end));
    return apart && inside(two[0], one) !== inside(two[1], one);
  }));
}

/** Whether a rank sends something while it still sends something else; in order of begin. */
function overlaps(messages) {
  const until = new Map();
  return messages.some(([begin, end, from]) => {
    const busy = begin < (until.get(from) ?? 0);
    until.set(from, Math.max(end, until.get(from) ?? 0));
    return busy;
  });
}

/** What stands for so many pieces that go out together. */
const atOnce = (count) => `${count} at once`;

/** One name for a column, or for all from one to another: c4–7. */
function rangeName(first, last) {
  if (first === last) return first;
  const [, kind, number] = last.match(/^(.*?)(\d*)$/);
  return number && first.replace(/\d+$/, "") === kind ? `${first}–${number}` : `${first}–${last}`;
}

/** Draws a scene of steps into `box`; what comes back draws it at any time. */
function stepsView(scene, box, settings) {
  const { size, headings, places, wires, colours, messages, columns, writes, own, promised, values, identities, words, numbers, steps } = scene;
  const ranks = numbers.length;
  // A column says which chunk it is: c2: 0+1 is written as 0+1.
  const short = (value) => words[value].replace(/^[cb]\d+(\.\.\d+)?: /, "");
  const sum = (value) => values[value].reduce((all, [rank, block]) => all + numbers[rank][block], 0);
  const written = (list, brief) => {
    const texts = list.slice(0, 3).map((value) => settings.numbers ? String(sum(value)) : brief ? short(value) : words[value]);
    return texts.join(" ") + (list.length > 3 ? " …" : "");
  };
  const wide = size[0] > 1.5 * size[1];
  const beside = settings.alone && box.clientWidth > 860 && !wide;
  if (beside) box.classList.add("beside");
  const room = beside ? 430 : box.clientWidth;
  const high = Math.max(260, window.innerHeight * (settings.alone ? 0.5 : 0.4));
  // Where lines cross, what is sent stands outside, at the rank that sends it, with room for the widest.
  const outside = ranks <= 16 && crossing(places, wires, size);
  const more = (carried) => carried.length > 1 ? " …" : "";
  const whole = (carried) => settings.numbers ? written(carried.slice(0, 1), true) : `${words[carried[0]] ?? ""}${more(carried)}`;
  const said = outside ? [...new Set(messages.flatMap(([, , , , , , carried]) => whole(carried).split(": ")))] : [];
  if (outside && overlaps(messages)) said.push(atOnce(10));
  const flank = Math.min(80, Math.max(24, ...said.map(nameWide)));
  // Around the circle there is some room already.
  const around = outside ? Math.min(...places.map((place) => place.y - place.size)) : 0;
  const [padX, padY] = outside ? [flank + 6, LETTERS + 8] : [0, 0];
  // The picture scales, letters do not: `px` is a pixel in the picture's unit.
  const scale = Math.min((room - 2 * padX) / (size[0] - 2 * around), (high - 2 * padY) / (size[1] - 2 * around), 1.4);
  const px = 1 / scale;
  const frame = [around - padX * px, around - padY * px, size[0] - around + padX * px, size[1] - around + padY * px];
  const [wideOf, highOf] = [frame[2] - frame[0], frame[3] - frame[1]];
  const svg = shape("svg", { viewBox: `${frame[0]} ${frame[1]} ${wideOf} ${highOf}`, width: wideOf * scale, height: highOf * scale, class: "ring", role: "img", "aria-label": "Who sends to whom" });
  const drawing = part("div", "drawing", box);
  drawing.append(svg);
  if (outside) part("p", "note", drawing, "Beside a rank stands what it sends.");
  for (const [x, text] of headings ?? []) shape("text", { x, y: 10 * px, class: "heading", "font-size": 14 * px }, svg).textContent = text;

  /** Half of the box around a place. */
  const half = (place) => place.switch ? [Math.max(place.size * 1.5, (place.label.length * LETTER / 2 + 6) * px), Math.max(place.size * 0.6, 11 * px)] : [place.size, place.size];
  /** From the middle of a place to its edge, in a direction. */
  const edge = (place, [x, y]) => {
    if (!place.switch) return place.size;
    const [w, h] = half(place);
    return Math.min(w / Math.abs(x || 1e-9), h / Math.abs(y || 1e-9));
  };

  // A pair's two directions are bent apart.
  const paths = new Map();
  const under = shape("g", { class: "wires" }, svg);
  for (const [from, to] of wires) {
    const a = places[from], b = places[to];
    const [dx, dy] = [b.x - a.x, b.y - a.y];
    const bend = a.switch || b.switch ? 0.06 : 0.1;
    const control = [(a.x + b.x) / 2 - dy * bend, (a.y + b.y) / 2 + dx * bend];
    const towards = (p, by) => {
      const [cx, cy] = [control[0] - p.x, control[1] - p.y];
      const far = Math.hypot(cx, cy) || 1;
      const way = edge(p, [cx / far, cy / far]) + by;
      return [p.x + cx / far * way, p.y + cy / far * way].map((value) => Math.round(value * 10) / 10);
    };
    const line = shape("path", { class: "", d: `M${towards(a, 1)}Q${control} ${towards(b, 2)}` }, under);
    // Squares stop before they reach a place.
    const short = SQUARE / 2 * px + 1;
    paths.set(`${from}-${to}`, { line, start: towards(a, short), control, end: towards(b, short) });
  }
  // Points of the lines: names lie beside them if they can.
  const points = [...paths.values()].flatMap((path) => Array.from({ length: 17 }, (_, k) => along(path, k / 16)));
  const moving = shape("g", {}, svg);
  const every = Math.ceil((String(ranks - 1).length * LETTER + 2) / Math.max(6, 2 * scale * Math.min(...places.map((place) => place.size))));
  const nodes = places.map((place) => {
    const group = shape("g", { class: place.switch ? "switch" : "rank" }, svg);
    const [w, h] = half(place);
    if (place.switch) {
      shape("rect", { x: place.x - w, y: place.y - h, width: 2 * w, height: 2 * h, rx: 7 }, group);
    } else {
      shape("circle", { cx: place.x, cy: place.y, r: place.size }, group);
    }
    if (place.switch || place.rank % every === 0) {
      const letters = place.switch ? LETTERS : Math.max(LETTERS, Math.min(17, place.size * scale));
      shape("text", { x: place.x, y: place.y, "font-size": letters * px }, group).textContent = place.label;
    }
    const sums = place.switch ? shape("text", { x: place.x, y: place.y + h + 10 * px, class: "does", "font-size": LETTERS * px }, group) : null;
    return { group, sums };
  });
  // Names of chunks lie over all else, and beside what they name.
  const over = shape("g", { class: "names" }, svg);
  const solid = places.map((place) => {
    const [w, h] = half(place);
    return [place.x - w - px, place.y - h - px, place.x + w + px, place.y + h + px];
  });
  // So do the words that say what a switch does.
  for (const place of places.filter((one) => one.switch)) {
    const [far, below] = ["adds and copies".length * LETTER / 2 * px, place.y + half(place)[1]];
    solid.push([place.x - far, below, place.x + far, below + 20 * px]);
  }

  // Memory: own data apart where it has places of its own.
  const tables = part("div", "tables", box);
  const apart = own.in_place ? [] : own.columns;
  const count = columns.length + apart.length;
  const left = beside ? box.clientWidth - 454 : box.clientWidth;
  // Up to three values stand in a cell, in brackets if they are only passed on.
  const longest = (settings.numbers ? 25 : Math.max(...words.map((word, value) => nameWide(short(value)))) * 1.04)
    * Math.min(3, Math.max(1, ...writes.map((write) => write[3].length))) + 12;
  const PORT = 76, NUMBER = 40;
  const each = (left - NUMBER - 2 * PORT) / count;
  const compact = longest + 12 > each;
  const roomy = each >= 21;
  const table = part("table", compact ? `memory compact ${roomy ? "roomy" : ""}` : "memory", tables);
  if (compact) table.style.width = `${Math.min(left, NUMBER + 2 * PORT + count * 36)}px`;
  const head = part("tr", "", part("thead", "", table));
  part("th", "number", head, "rank");
  const cellWide = Math.min(each, 36);
  // Names that are too wide for their columns stand upright, where that is too wide too one for several columns.
  const upright = compact && [...apart, ...columns].some((name) => name.length * 7.8 + 2 > cellWide);
  const together = upright ? Math.ceil(UPRIGHT / cellWide) : 1;
  const heads = (names, first) => {
    for (let k = 0; k < names.length;) {
      // What is left over belongs to the last.
      const of = names.length - k < 2 * together ? names.length - k : together;
      const count = together === 1 ? 1 : of;
      const cell = part("th", k === 0 ? first : "", head);
      cell.colSpan = count;
      if (count > 1) cell.classList.add("several");
      part("span", upright ? "upright" : "", cell, rangeName(names[k], names[k + count - 1]));
      k += count;
    }
  };
  heads(apart, "own");
  heads(columns, "first");
  part("th", "port", head, "sent");
  part("th", "port", head, "received");
  const body = part("tbody", "", table);
  const rows = [];
  for (let rank = 0; rank < ranks; rank++) {
    const row = part("tr", "", body);
    part("th", "", row, String(rank));
    const mine = apart.map((name, k) => part("td", k === 0 ? "own" : "", row));
    const cells = columns.map((name, k) => part("td", k === 0 ? "first" : "", row));
    const ports = [0, 1].map(() => part("td", "port", row));
    rows.push({ mine, cells, ports });
  }
  const most = Math.max(1, ...portsAt(Infinity).flat());

  const sums = promised.flat().some((value) => value !== null && values[value].length > 1);
  const most_summed = Math.max(1, ...promised.flat().map((value) => value === null ? 1 : values[value].length));

  function fill(cell, state) {
    const { list, kind } = state;
    cell.dataset.state = kind;
    if (list.length === 0) {
      cell.textContent = kind === "absent" || compact ? "" : "·";
      cell.style.background = "none";
      cell.title = "";
      return;
    }
    const text = written(list, true);
    // Where there is no room: how many have contributed.
    const brief = sums && roomy ? String(values[list[0]].length) : "";
    const whole = kind === "passing" ? `(${text})` : text;
    const fits = !compact || whole.length * 7.6 + 3 <= Math.min(each, 36);
    cell.textContent = compact && !settings.numbers ? brief : fits ? whole : "";
    cell.title = written(list, false);
    const full = Math.min(1, 0.45 + 0.55 * values[list[0]].length / most_summed);
    cell.style.background = `color-mix(in srgb, ${colours[identities[list[0]]]} ${Math.round(full * 100)}%, var(--card))`;
  }

  /** Bytes sent and received by each rank at a time. */
  function portsAt(now) {
    const ports = Array.from({ length: ranks }, () => [0, 0]);
    for (const [begin, end, from, to, , bytes] of messages) {
      if (begin > now) break;
      const moved = now === Infinity ? bytes : bytes * share(now, begin, end);
      if (places[from].rank !== undefined) ports[places[from].rank][0] += moved;
      if (places[to].rank !== undefined) ports[places[to].rank][1] += moved;
    }
    return ports;
  }

  /** What every cell holds at a time. */
  function memoryAt(now) {
    const memory = promised.map((row, rank) => row.map((value, column) => {
      const mine = own.in_place ? own.cells[rank][column] : null;
      return mine === null || mine === undefined ? { list: [], kind: "empty" } : { list: [mine], kind: "own" };
    }));
    for (const [time, rank, column, list, passing] of writes) {
      if (time > now) break;
      const before = memory[rank][column];
      // What is only passed on is gone with the next thing.
      memory[rank][column] = passing
        ? { list, kind: "passing", under: before.kind === "passing" ? before.under : before, time }
        : { list, kind: "partial", time };
    }
    return memory.map((row, rank) => row.map((cell, column) => {
      if (cell.kind !== "partial") return cell;
      const value = promised[rank][column];
      return value !== null && cell.list.length === 1 && sameSum(cell.list[0], value) ? { ...cell, kind: "done" } : cell;
    }));
  }
  const sameSum = (a, b) => a === b || JSON.stringify(values[a]) === JSON.stringify(values[b]);

  const dots = [];
  const names = [];
  function draw(now) {
    let used = 0;
    const busy = new Set();
    const named = new Map();
    const squares = [];
    const working = new Set();
    const last = firstWhere(messages, (message) => message[0] > now);
    for (let k = 0; k < last; k++) {
      const [begin, end, from, to, colour, bytes, carried] = messages[k];
      if (now >= end) continue;
      const path = paths.get(`${from}-${to}`);
      busy.add(path.line);
      if (places[from].switch) working.add(from);
      if (places[to].switch) working.add(to);
      const at = along(path, share(now, begin, end));
      const dot = dots[used] ?? (dots[used] = newDot());
      used += 1;
      dot.group.setAttribute("transform", `translate(${at[0].toFixed(1)} ${at[1].toFixed(1)})`);
      dot.square.setAttribute("fill", colours[colour]);
      const reach = SQUARE / 2 * px;
      squares.push([at[0] - reach, at[1] - reach, at[0] + reach, at[1] + reach]);
      dot.title.textContent = `${written(carried, false)}, ${bytesText(bytes)}`;
      // Of chunks that follow each other on a line one is named.
      if (outside) named.set(from, [...named.get(from) ?? [], carried]);
      else if (ranks <= 16 && !named.has(path)) named.set(path, carried);
    }
    name(named, squares);
    moving.replaceChildren(...dots.slice(0, used).map((dot) => dot.group));
    for (const { line } of paths.values()) line.classList.toggle("busy", busy.has(line));
    nodes.forEach(({ group, sums }, index) => {
      if (!sums) return;
      group.classList.toggle("working", working.has(index));
      sums.textContent = working.has(index) ? doing(index, now) : "";
    });
    const ports = portsAt(now);
    const memory = memoryAt(now);
    rows.forEach((row, rank) => {
      row.mine.forEach((cell, column) => {
        const value = own.cells[rank][column];
        fill(cell, value === null ? { list: [], kind: "absent" } : { list: [value], kind: "own" });
      });
      row.cells.forEach((cell, column) => fill(cell, memory[rank][column]));
      row.ports.forEach((port, side) => {
        port.style.setProperty("--share", `${ports[rank][side] / most * 100}%`);
        port.textContent = bytesText(ports[rank][side]);
      });
    });
  }

  /** A point of a line. */
  function along({ start, control, end }, u) {
    return [0, 1].map((axis) => (1 - u) ** 2 * start[axis] + 2 * u * (1 - u) * control[axis] + u ** 2 * end[axis]);
  }

  /** Where the name of what is on a line may be: beside its middle or nearer to one end, on either side. */
  function candidates(path, width) {
    const height = (LETTERS + 2) * px;
    const all = [];
    for (const further of [0, 13 * px]) for (const u of [0.5, 0.3, 0.7]) {
      const [x, y] = along(path, u), [x1, y1] = along(path, u - 0.05), [x2, y2] = along(path, u + 0.05);
      const far = Math.hypot(x2 - x1, y2 - y1) || 1;
      let [nx, ny] = [-(y2 - y1) / far, (x2 - x1) / far];
      // First away from the middle of the picture.
      if ((x - size[0] / 2) * nx + (y - size[1] / 2) * ny < 0) [nx, ny] = [-nx, -ny];
      const by = Math.abs(nx) * width / 2 + Math.abs(ny) * height / 2 + (SQUARE / 2 + 2) * px + further;
      for (const side of [1, -1]) {
        const [cx, cy] = [x + side * nx * by, y + side * ny * by];
        all.push([cx - width / 2, cy - height / 2, cx + width / 2, cy + height / 2]);
      }
    }
    return all;
  }

  /** Names what is on lines, where a name lies on nothing else: all in full, or of each its chunk alone where it has a place. */
  function name(named, squares) {
    const full = settings.numbers ? null : (outside ? spoken : placed)(named, squares, false);
    const labels = full ?? (outside ? spoken : placed)(named, squares, true);
    labels.forEach(({ text, box }, used) => {
      const label = names[used] ?? (names[used] = shape("text", { "font-size": LETTERS * px, "stroke-width": 3 * px }));
      label.setAttribute("x", ((box[0] + box[2]) / 2).toFixed(1));
      label.setAttribute("y", ((box[1] + box[3]) / 2).toFixed(1));
      if (label.textContent !== text) label.textContent = text;
    });
    over.replaceChildren(...names.slice(0, labels.length));
  }

  /** Whether a box is inside the picture and lies on none of those that are taken. */
  const clear = (box, taken) => box[0] >= frame[0] && box[1] >= frame[1] && box[2] <= frame[2] && box[3] <= frame[3]
    && taken.every((other) => box[0] >= other[2] || box[2] <= other[0] || box[1] >= other[3] || box[3] <= other[1]);

  /** Names outside the ring: beside the ranks that send, in rows; above and below the ring in one. `null` as of `placed`. */
  function spoken(named, squares, brief) {
    const taken = [...solid, ...squares];
    const labels = [];
    for (const [from, all] of named) {
      const place = places[from];
      const [dx, dy] = [place.x - size[0] / 2, place.y - size[1] / 2];
      const side = Math.abs(dx) > 0.3 * Math.abs(dy);
      const text = all.length > 1 ? atOnce(all.length) : whole(all[0]);
      const rows = brief && !settings.numbers ? [text.split(":")[0]] : side ? text.split(": ") : [text];
      const half = Math.max(...rows.map(nameWide)) / 2 * px;
      const high = (LETTERS + 2) * px;
      const x = side ? place.x + Math.sign(dx) * (place.size + 4 * px + half) : place.x;
      const y = side ? place.y : place.y + Math.sign(dy) * (place.size + 2 * px + high / 2);
      const boxes = rows.map((row, k) => {
        const top = y + (k - rows.length / 2) * high;
        return [x - half, top, x + half, top + high];
      });
      if (boxes.every((box) => clear(box, taken))) {
        taken.push(...boxes);
        rows.forEach((row, k) => labels.push({ text: row, box: boxes[k] }));
      } else if (!brief) return null;
    }
    return labels;
  }

  /** Where names lie; of names in full `null` if not all of them have a place. */
  function placed(named, squares, brief) {
    const taken = [...solid, ...squares];
    const crossed = (box) => points.filter(([x, y]) => box[0] < x && x < box[2] && box[1] < y && y < box[3]).length;
    const labels = [];
    for (const [path, carried] of named) {
      const text = brief && !settings.numbers ? whole(carried).split(":")[0] : whole(carried);
      const all = candidates(path, (nameWide(text) + 2) * px).filter((box) => clear(box, taken));
      if (all.length === 0) {
        if (!brief) return null;
        continue;
      }
      const box = all.reduce((best, other) => crossed(other) < crossed(best) ? other : best);
      taken.push(box);
      labels.push({ text, box });
    }
    return labels;
  }

  function newDot() {
    const group = shape("g", { class: "chunk" });
    const title = shape("title", {}, group);
    const square = shape("rect", { x: -SQUARE / 2 * px, y: -SQUARE / 2 * px, width: SQUARE * px, height: SQUARE * px, rx: 3.5 * px }, group);
    return { group, square, title };
  }

  /** What a switch does at a time. */
  function doing(place, now) {
    const here = messages.filter(([begin, end, from, to]) => (from === place || to === place) && begin <= now && now < end);
    const does = new Set(here.map((message) => message[8]));
    const adds = does.has("load-reduce") || does.has("in-network");
    return [adds && "adds", does.has("multicast") && "copies"].filter(Boolean).join(" and ");
  }

  /** Latency and transfer until a time, in nanoseconds: the α and the bytes of the steps that have begun. */
  function costs(now) {
    const { alpha_us, rate_gbs } = scene.cost;
    let alpha = 0, moved = 0;
    for (const [begin, end, bytes] of steps) {
      if (begin > now && now < scene.end) continue;
      alpha += alpha_us * 1e3;
      moved += bytes / rate_gbs * share(Math.min(now, end), begin, end);
    }
    return { alpha, moved };
  }

  /** Whether every output holds what was promised; null before the end. */
  function verdict(now) {
    if (now < scene.end) return null;
    const memory = memoryAt(now);
    for (let rank = 0; rank < ranks; rank++) {
      for (let column = 0; column < columns.length; column++) {
        const value = promised[rank][column];
        if (value === null) continue;
        const cell = memory[rank][column];
        const kept = cell.kind === "passing" ? cell.under : cell;
        const holds = kept.list.length === 1 ? kept.list[0] : null;
        const mine = kept.kind === "own";
        if (holds === null || sum(holds) !== sum(value)) {
          return { right: mine && values[value].length === 1 && sameSum(holds, value), rank, column: columns[column], holds: holds === null ? null : sum(holds), promised: sum(value) };
        }
      }
    }
    return { right: true };
  }

  return { draw, costs, verdict, stops: steps.map((step) => step[1]), hasNumbers: true };
}
