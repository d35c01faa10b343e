// One clock, the knob, and the check of a lesson.
"use strict";

const lesson = JSON.parse(document.querySelector("#lesson script").textContent);
const at = (id) => document.getElementById(id);
const { knob } = lesson;
const settings = { numbers: false, stacked: knob.stacked };
const stage = at("stage");
/** Seconds that the longest scene takes at speed 1. */
const SECONDS = 12;

let position = knob.shown;
let views = [];
let end = 1;
let now = 0;
let playing = null;

/** The scenes of a position: its own, or those of the first that has any. */
const scenesOf = (index) => knob.positions[index].scenes;

function build() {
  stage.replaceChildren();
  const shown = knob.stacked
    ? knob.positions.flatMap((p, index) => p.scenes.map((scene) => ({ scene, index })))
    : scenesOf(position).map((scene) => ({ scene, index: position }));
  stage.className = knob.stacked ? "stage stacked" : shown.every(({ scene }) => scene.kind === "lanes") ? "stage" : `stage of${Math.min(4, shown.length)}`;
  if (shown.length === 0) {
    part("p", "note", stage, "The pictures of this position would make the page too large. Its figures are on the curve.");
  }
  settings.alone = shown.length === 1;
  settings.longest = Math.max(8, ...shown.flatMap(({ scene }) => (scene.lanes ?? []).map((lane) => lane.name.length)));
  end = Math.max(1, ...shown.map(({ scene }) => scene.end));
  views = shown.map(({ scene, index }) => {
    const box = part("article", `scene of-${scene.kind}`, stage);
    if (knob.stacked && index === position) box.classList.add("chosen");
    const title = part("h3", "", box, knob.stacked ? `${knob.name} ${knob.positions[index].label}` : scene.name);
    part("span", "aside", title, knob.stacked ? scene.name : scene.about);
    const clock = part("p", "clock", box);
    const view = scene.kind === "steps" ? stepsView(scene, box, settings)
      : scene.kind === "lanes" ? lanesView(scene, box, settings, end)
      : machineView(scene, box, settings, end, lesson);
    const bars = view.costs ? costBars(box) : null;
    const verdict = view.verdict ? part("p", "verdict", box) : null;
    for (const note of scene.notes) part("p", "note", box, note);
    if (scene.wrong) part("p", "note wrong", box, scene.wrong);
    return { scene, view, clock, bars, verdict, index };
  });
  at("numbers-of").hidden = !views.some(({ view }) => view.hasNumbers);
  tell();
  draw();
}

/** Bars of α and of bytes that grow. */
function costBars(box) {
  const bars = part("div", "costs", box);
  const alpha = part("span", "alpha", part("span", "track", bars));
  const moved = part("span", "moved", alpha.parentElement);
  const text = part("span", "text", bars);
  return { alpha, moved, text };
}

function draw() {
  now = Math.min(end, Math.max(0, now));
  at("clock").value = Math.round(now / end * 1000);
  at("time").textContent = `${timeText(now)} of ${timeText(end)}`;
  const longest = Math.max(1, ...views.map(({ scene }) => scene.cost ? scene.cost.counted_us * 1e3 : 0));
  for (const { scene, view, clock, bars, verdict } of views) {
    const own = Math.min(now, scene.end);
    view.draw(own);
    clock.textContent = now >= scene.end ? `done: ${scene.took}` : timeText(own);
    clock.classList.toggle("done", now >= scene.end);
    if (bars) {
      const { alpha, moved } = view.costs(own);
      bars.alpha.style.width = `${alpha / longest * 100}%`;
      bars.moved.style.width = `${moved / longest * 100}%`;
      bars.text.textContent = `latency ${timeText(alpha)} + bytes ${timeText(moved)}`;
    }
    if (view.verdict) {
      const found = view.verdict(own);
      verdict.className = `verdict ${found === null ? "" : found.right ? "right" : "wrong"}`;
      verdict.textContent = found === null ? ""
        : found.right ? "Every rank holds what it should."
        : `Wrong: rank ${found.rank} holds ${found.holds ?? "nothing"} in ${found.column}; it should be ${found.promised}.`;
    }
  }
}

/** All times at which something ends, and 0. */
const stops = () => [...new Set([0, ...views.flatMap(({ view }) => view.stops), ...views.map(({ scene }) => scene.end)])].sort((a, b) => a - b);

function step(direction) {
  pause();
  const all = stops();
  // A hair's breadth, since times were rounded.
  const slack = end * 1e-9;
  const next = direction > 0 ? all.find((stop) => stop > now + slack) : all.findLast((stop) => stop < now - slack);
  now = next ?? (direction > 0 ? end : 0);
  draw();
}

function pause() {
  if (playing !== null) cancelAnimationFrame(playing);
  playing = null;
  at("play").classList.remove("playing");
  at("play").setAttribute("aria-label", "Play");
}

function play() {
  if (now >= end) now = 0;
  at("play").classList.add("playing");
  at("play").setAttribute("aria-label", "Pause");
  let before = performance.now();
  const frame = (moment) => {
    now += (moment - before) / 1000 / SECONDS * end * Number(at("speed").value);
    before = moment;
    draw();
    if (now >= end) pause(); else playing = requestAnimationFrame(frame);
  };
  playing = requestAnimationFrame(frame);
}

const toggle = () => playing === null ? play() : pause();

/** What the chosen position says, in a sentence. */
function tell() {
  const chosen = knob.positions[position];
  const figures = [...chosen.figures].sort((a, b) => a.value - b.value);
  const label = knob.positions.length > 1 ? `${knob.name} ${chosen.label}: ` : "";
  at("now").textContent = label + figures.map((figure) => `${figure.of} ${figure.text}`.trim()).join(", ") + ".";
  if (at("position")) at("position").textContent = chosen.label;
  curve.mark(position);
  costs();
}

function costs() {
  const section = at("costs");
  const scenes = scenesOf(position).filter((scene) => scene.cost);
  section.hidden = scenes.length === 0;
  if (scenes.length === 0) return;
  const box = section.querySelector(".scroll");
  box.replaceChildren();
  const table = part("table", "", box);
  const head = part("tr", "", part("thead", "", table));
  for (const name of ["algorithm", "closed form", "", "counted", "", "simulated"]) part("th", "", head, name);
  const body = part("tbody", "", table);
  const why = section.querySelector(".overlap");
  why.replaceChildren(...scenes.map(({ name, overlap }) => {
    const line = part("p", "note");
    line.append(part("strong", "", null, scenes.length > 1 ? `${name}: ` : ""), overlap);
    return line;
  }));
  for (const { name, cost } of scenes) {
    const row = part("tr", "", body);
    const cell = (of, className, text) => part("td", className, row, text).dataset.of = of;
    part("td", "", row, name);
    cell("closed form", "formula", cost.closed_form ? cost.closed_form.formula : "none for these ranks and chunks");
    part("td", "number", row, cost.closed_form ? timeText(cost.closed_form.time_us * 1e3) : "");
    cell("counted", "formula", `${cost.steps} α + ${digits(cost.volume)} S/B`);
    part("td", "number", row, timeText(cost.counted_us * 1e3));
    cell("simulated", "number", timeText(cost.simulated_us * 1e3));
  }
}

function choose(index) {
  const next = Math.min(knob.positions.length - 1, Math.max(0, index));
  if (next === position) return;
  const done = now / end;
  position = next;
  if (at("knob")) at("knob").value = position;
  build();
  now = done * end;
  draw();
}

let curve = drawCurve();
function drawCurve() {
  return at("curve") ? curveView(knob, at("curve"), choose) : { mark() {} };
}

/** Draws everything again, for another width or other words in cells. */
function again() {
  const before = now;
  curve = drawCurve();
  build();
  now = before;
  draw();
}

// Letters keep their size, so that what is around them depends on the width.
let width = stage.clientWidth;
window.addEventListener("resize", () => {
  if (stage.clientWidth === width) return;
  width = stage.clientWidth;
  again();
});

if (at("knob")) at("knob").addEventListener("input", (event) => choose(Number(event.target.value)));
at("play").addEventListener("click", toggle);
at("back").addEventListener("click", () => step(-1));
at("forward").addEventListener("click", () => step(1));
at("clock").addEventListener("input", (event) => {
  pause();
  now = event.target.value / 1000 * end;
  draw();
});
at("numbers").addEventListener("change", (event) => {
  settings.numbers = event.target.checked;
  again();
});
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || /^(SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
  const written = event.target.tagName === "INPUT" && /^(number|text)$/.test(event.target.type);
  if (written) return;
  const keys = {
    " ": toggle, ArrowRight: () => step(1), ArrowLeft: () => step(-1), Home: () => { pause(); now = 0; draw(); },
    End: () => { pause(); now = end; draw(); }, "]": () => choose(position + 1), "[": () => choose(position - 1),
  };
  // A focused slider moves by arrows, a focused button is pressed by space.
  const slides = event.target.type === "range" && /^(Arrow|Home|End)/.test(event.key);
  const presses = event.key === " " && /^(BUTTON|INPUT|SUMMARY)$/.test(event.target.tagName) && event.target.type !== "range";
  if (slides || presses || !keys[event.key]) return;
  event.preventDefault();
  keys[event.key]();
});

const check = at("check");
if (check) {
  check.querySelector("form").addEventListener("submit", (event) => {
    event.preventDefault();
    const given = new FormData(event.target).get("answer");
    const verdict = check.querySelector(".verdict");
    let right, answer;
    if (lesson.check.choice) {
      const [options, index] = lesson.check.choice;
      right = Number(given) === index;
      answer = options[index];
    } else {
      const [value, unit, tolerance] = lesson.check.number;
      right = Math.abs(Number(given) - value) <= Math.abs(value) * tolerance;
      answer = `${digits(value)} ${unit}`;
    }
    verdict.hidden = false;
    verdict.className = `verdict ${right ? "right" : "wrong"}`;
    verdict.textContent = `${right ? "Right" : "Not quite"}: ${answer}. ${lesson.check.why}`;
  });
}

build();
