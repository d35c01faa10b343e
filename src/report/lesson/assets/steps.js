// Chunks that go between ranks, and what each rank holds.
"use strict";

/** Draws a scene of steps into `box`; what comes back draws it at any time. */
function stepsView(scene, box, settings) {
  const { places, wires, colours, messages, columns, writes, own, promised, values, identities, words, numbers, steps } = scene;
  const ranks = numbers.length;
  const svg = shape("svg", { viewBox: "0 0 400 400", class: "ring", role: "img", "aria-label": "Who sends to whom" });
  const drawing = part("div", "drawing", box);
  drawing.append(svg);

  // A pair's two directions are bent apart.
  const paths = new Map();
  const under = shape("g", { class: "wires" }, svg);
  for (const [from, to] of wires) {
    const a = places[from], b = places[to];
    const [dx, dy] = [b.x - a.x, b.y - a.y];
    const length = Math.hypot(dx, dy) || 1;
    const bend = a.switch || b.switch ? 0.06 : 0.1;
    const control = [(a.x + b.x) / 2 - dy * bend, (a.y + b.y) / 2 + dx * bend];
    const towards = (p, by) => {
      const [cx, cy] = [control[0] - p.x, control[1] - p.y];
      const far = Math.hypot(cx, cy) || 1;
      return [p.x + cx / far * by, p.y + cy / far * by];
    };
    const tenth = (point) => point.map((value) => Math.round(value * 10) / 10);
    const start = tenth(towards(a, a.size + 1)), end = tenth(towards(b, b.size + 2));
    const line = shape("path", { class: "", d: `M${start}Q${control} ${end}` }, under);
    paths.set(`${from}-${to}`, { line, start, control, end, length });
  }
  const moving = shape("g", {}, svg);
  const nodes = places.map((place) => {
    const group = shape("g", { class: place.switch ? "switch" : "rank" }, svg);
    if (place.switch) {
      shape("rect", { x: place.x - place.size * 1.5, y: place.y - place.size * 0.6, width: place.size * 3, height: place.size * 1.2, rx: 7 }, group);
    } else {
      shape("circle", { cx: place.x, cy: place.y, r: place.size }, group);
    }
    const label = shape("text", { x: place.x, y: place.y, "font-size": place.switch ? 12 : Math.max(8, Math.min(17, place.size)) }, group);
    label.textContent = place.label;
    const sums = place.switch ? shape("text", { x: place.x, y: place.y + place.size * 0.6 + 13, class: "does", "font-size": 11 }, group) : null;
    return { group, sums };
  });

  // Memory: own data apart where it has places of its own.
  const tables = part("div", "tables scroll", box);
  const compact = columns.length + (own.in_place ? 0 : own.columns.length) > (settings.alone ? 16 : 6);
  const roomy = columns.length + (own.in_place ? 0 : own.columns.length) <= 10;
  const table = part("table", compact ? `memory compact ${roomy ? "roomy" : ""}` : "memory", tables);
  const head = part("tr", "", part("thead", "", table));
  part("th", "", head, "rank");
  const apart = own.in_place ? [] : own.columns;
  apart.forEach((name, k) => part("th", k === 0 ? "own" : "", head, compact ? "" : name));
  columns.forEach((name, k) => part("th", k === 0 ? "first" : "", head, compact ? "" : name));
  part("th", "port", head, "sent");
  part("th", "port", head, "received");
  const body = part("tbody", "", table);
  const rows = [];
  for (let rank = 0; rank < ranks; rank++) {
    const row = part("tr", "", body);
    part("th", "", row, String(rank));
    const mine = apart.map((name, k) => part("td", k === 0 ? "own" : "", row));
    const cells = columns.map((name, k) => part("td", k === 0 ? "first" : "", row));
    const ports = [0, 1].map(() => {
      const cell = part("td", "port", row);
      const bar = part("span", "bytes", cell);
      return { bar, text: part("span", "", cell) };
    });
    rows.push({ mine, cells, ports });
  }
  const most = Math.max(1, ...portsAt(Infinity).flat());

  const sum = (value) => values[value].reduce((all, [rank, block]) => all + numbers[rank][block], 0);
  // A column says which chunk it is: c2: 0+1 is written as 0+1.
  const short = (value) => words[value].replace(/^[cb]\d+(\.\.\d+)?: /, "");
  const written = (list, brief) => {
    const texts = list.slice(0, 3).map((value) => settings.numbers ? String(sum(value)) : brief ? short(value) : words[value]);
    return texts.join(" ") + (list.length > 3 ? " …" : "");
  };
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
    cell.textContent = compact && !settings.numbers ? brief : kind === "passing" ? `(${text})` : text;
    cell.title = written(list, false);
    const full = Math.min(1, 0.3 + 0.7 * values[list[0]].length / most_summed);
    cell.style.background = `color-mix(in srgb, ${colours[identities[list[0]]]} ${Math.round(full * 100)}%, var(--card))`;
  }

  /** Bytes sent and received by each rank at a time. */
  function portsAt(now) {
    const ports = Array.from({ length: ranks }, () => [0, 0]);
    for (const [begin, end, from, to, , bytes] of messages) {
      if (begin > now) break;
      const moved = now === Infinity ? bytes : bytes * share(now, begin, end);
      if (from < ranks) ports[from][0] += moved;
      if (to < ranks) ports[to][1] += moved;
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
  function draw(now) {
    let used = 0;
    const busy = new Set();
    const labelled = new Set();
    const working = new Set();
    const last = firstWhere(messages, (message) => message[0] > now);
    for (let k = 0; k < last; k++) {
      const [begin, end, from, to, colour, bytes, carried] = messages[k];
      if (now >= end) continue;
      const path = paths.get(`${from}-${to}`);
      busy.add(path.line);
      if (places[from].switch) working.add(from);
      if (places[to].switch) working.add(to);
      const u = share(now, begin, end);
      const at = [0, 1].map((axis) => (1 - u) ** 2 * path.start[axis] + 2 * u * (1 - u) * path.control[axis] + u ** 2 * path.end[axis]);
      const dot = dots[used] ?? (dots[used] = newDot());
      used += 1;
      dot.group.setAttribute("transform", `translate(${at[0].toFixed(1)} ${at[1].toFixed(1)})`);
      dot.square.setAttribute("fill", colours[colour]);
      // Its name stands outside the circle of ranks.
      const far = Math.hypot(at[0] - 200, at[1] - 200);
      const away = far > 60 ? [(at[0] - 200) / far * 24, (at[1] - 200) / far * 17] : [0, -15];
      dot.text.setAttribute("x", away[0].toFixed(1));
      dot.text.setAttribute("y", away[1].toFixed(1));
      // Of chunks that follow each other on a line one is named.
      const named = ranks <= 16 && !labelled.has(path);
      labelled.add(path);
      const text = !named ? "" : settings.numbers ? written(carried.slice(0, 1), true) : words[carried[0]] ?? "";
      if (dot.text.textContent !== text) dot.text.textContent = text;
      dot.title.textContent = `${written(carried, false)}, ${bytesText(bytes)}`;
    }
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
        port.bar.style.width = `${ports[rank][side] / most * 64}px`;
        port.text.textContent = bytesText(ports[rank][side]);
      });
    });
  }

  function newDot() {
    const group = shape("g", { class: "chunk" });
    const title = shape("title", {}, group);
    const square = shape("rect", { x: -8, y: -8, width: 16, height: 16, rx: 4 }, group);
    const text = shape("text", { x: 0, y: -13, "font-size": 11 }, group);
    return { group, square, text, title };
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
