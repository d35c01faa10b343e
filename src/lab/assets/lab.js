// The page's state is in its address; each change asks the server anew and shows the lines of its answer
// as they come.
"use strict";
(() => {
  const { token, choices } = JSON.parse(document.querySelector("#known script").textContent);
  const $ = (id) => document.getElementById(id);
  const PAGE = crypto.randomUUID();
  const DEFAULT = { job: "all-reduce", machine: "dgx-h100", size: 1 << 26, bucket: 25 * (1 << 20) };
  const NODES = [1, 2, 4, 8, 16, 32, 64, 128];

  const pins = { a: null, b: null };
  let state = readAddress();
  let generation = 0;
  let asking = null;
  let patience = 0;
  // Algorithms that NCCL does not consider, by name; as of the last time that it chose.
  const excluded = new Map();
  // Points that are known, by state without its place on the axis.
  const curves = new Map();
  let curve = null;
  let measure = "busbw";

  // The state, and those that are pinned.
  function readAddress() {
    const found = {};
    for (const [name, value] of new URLSearchParams(location.hash.slice(1))) found[name] = value;
    for (const name of ["a", "b"]) {
      const pinned = found[`pin-${name}`];
      delete found[`pin-${name}`];
      const own = pinned === undefined ? null : Object.fromEntries(new URLSearchParams(pinned));
      pins[name] = own && { state: own };
    }
    return found;
  }
  function writeAddress() {
    const all = { ...state };
    for (const name of ["a", "b"]) if (pins[name]) all[`pin-${name}`] = address(pins[name].state);
    history.replaceState(null, "", `#${address(all)}`);
  }
  function address(of) {
    const part = (text) => encodeURIComponent(text).replace(/%3A/g, ":").replace(/%2F/g, "/");
    return Object.keys(of).map((name) => `${part(name)}=${part(of[name])}`).join("&");
  }

  const training = () => choices.trainings.find((one) => one.name === job());
  const job = () => state.job ?? DEFAULT.job;
  const machineName = () => state.machine ?? training()?.machine ?? DEFAULT.machine;
  const machine = () => choices.machines.find((one) => one.name === machineName());
  function axisControl(of) {
    const own = choices.trainings.find((one) => one.name === of.job);
    return !own ? "size" : own.buckets ? "bucket" : "slow";
  }

  // Sets a control's value, or takes it out where it is what it is at first.
  function set(name, value) {
    if (value === null || value === undefined || value === "") delete state[name];
    else state[name] = String(value);
  }

  const option = (value, text, group) => Object.assign(document.createElement("option"), { value, textContent: text ?? value });
  function fill(select, options, value) {
    select.replaceChildren(...options);
    select.value = value;
    // What the address says is shown even if it is none of these: the server says what is wrong.
    if (select.value !== value) {
      select.append(option(value));
      select.value = value;
    }
  }
  const control = (name) => document.querySelector(`.control[data-for="${name}"]`);
  function show(name, text, changed, visible = true) {
    const root = control(name);
    root.hidden = !visible;
    root.classList.toggle("changed", Boolean(changed));
    root.querySelector("output").textContent = text;
  }
  const parseSize = (text) => {
    const found = /^([\d.]+)\s*([KMGT]?)(i?)B?$/i.exec(text ?? "");
    if (!found) return NaN;
    return Number(found[1]) * 1024 ** " KMGT".indexOf(found[2].toUpperCase() || " ");
  };
  const shortSize = (bytes) => sizeText(bytes).replace(" ", "");

  // Shows the state in the controls.
  function showControls() {
    const jobs = [document.createElement("optgroup"), document.createElement("optgroup")];
    jobs[0].label = "collectives";
    jobs[0].append(...choices.collectives.map((one) => option(one.name)));
    jobs[1].label = "steps of training";
    jobs[1].append(...choices.trainings.map((one) => option(one.name)));
    fill($("job"), jobs, job());
    fill($("machine"), choices.machines.map((one) => option(one.name)), machineName());
    // The long names.
    $("job").title = training()?.title ?? "";
    $("machine").title = machine()?.title ?? "";
    const whole = training()?.nodes;
    fill($("nodes"), [option("", whole ? `${whole} (as shipped)` : "as shipped"), ...NODES.map((n) => option(String(n)))], state.nodes ?? "");
    $("gpus").value = state.gpus ?? "";
    const own = choices.collectives.find((one) => one.name === job());
    const algorithms = (own?.algorithms ?? []).map((name) => {
      const why = excluded.get(name);
      return Object.assign(option(name, why ? `${name}: ${why}` : name), { disabled: Boolean(why) && state.algorithm !== name });
    });
    fill($("algorithm"), [option("", "NCCL's choice"), ...algorithms], state.algorithm ?? "");
    fill($("protocol"), [option("", "NCCL's choice"), ...choices.protocols.map((p) => option(p))], state.protocol ?? "");
    show("job", "", state.job);
    show("machine", "", state.machine);
    show("nodes", "", state.nodes);
    show("gpus", "", state.gpus, !training());
    show("algorithm", "", state.algorithm, Boolean(own));
    show("protocol", "", state.protocol, Boolean(own));
    const size = state.size ? parseSize(state.size) : DEFAULT.size;
    $("size").value = Math.log2(size);
    $("size").setAttribute("aria-valuetext", sizeText(size));
    show("size", sizeText(size), state.size, Boolean(own));
    const bucket = state.bucket ? parseSize(state.bucket) : DEFAULT.bucket;
    $("bucket").value = Math.log2(bucket);
    $("bucket").setAttribute("aria-valuetext", sizeText(bucket));
    show("bucket", sizeText(bucket), state.bucket, Boolean(training()?.buckets));
    showRates();
    const ratio = Number(state.oversubscription ?? 1);
    $("oversubscription").value = ratio;
    show("oversubscription", state.oversubscription ? `${ratio} : 1` : "as shipped", state.oversubscription, Boolean(machine()?.leaves));
    const [rank, speed] = (state.slow ?? "0:1").split(":");
    $("rank").value = rank;
    $("slow").value = Math.round(Number(speed) * 100);
    show("slow", speed === "1" ? "none" : `${$("slow").value} % of its speed`, state.slow);
    const [nic, share] = split(state.nic ?? `${$("nic-name").value}:1`);
    if (nic) fill($("nic-name"), [...$("nic-name").options], nic);
    $("nic").value = Math.round(Number(share) * 100);
    show("nic", Number(share) === 1 ? "none" : `${$("nic").value} % of its rate`, state.nic);
    if (state.kill) fill($("kill"), [...$("kill").options], state.kill);
    else $("kill").value = "";
    show("kill", "", state.kill);
    const variables = Object.keys(state).filter((name) => name.startsWith("env."));
    if (document.activeElement !== $("env")) $("env").value = variables.map((name) => `${name.slice(4)}=${state[name]}`).join(" ");
    show("env", "", variables.length);
  }
  const split = (text) => {
    const at = text.lastIndexOf(":");
    return [text.slice(0, at), text.slice(at + 1)];
  };

  // Links of the machine that people ask about: those between GPUs, to hosts and of the network.
  function showRates() {
    const links = (machine()?.links ?? []).filter((link) => ["NVLink", "PCIe", "network"].includes(link.family));
    const names = links.map((link) => link.name).join();
    if ($("rates").dataset.names !== names) {
      $("rates").dataset.names = names;
      $("rates").replaceChildren(...links.map((link) => {
        const root = document.createElement("div");
        root.className = "control";
        root.dataset.for = `rate.${link.name}`;
        const id = `rate-${link.name}`;
        const label = Object.assign(document.createElement("label"), { htmlFor: id, textContent: `${link.family}: ${link.name}` });
        const input = Object.assign(document.createElement("input"), { type: "range", id, min: 10, max: 200, step: 5 });
        input.dataset.rate = link.name;
        const wrong = Object.assign(document.createElement("p"), { className: "wrong", hidden: true });
        root.append(label, document.createElement("output"), input, wrong);
        return root;
      }));
    }
    for (const link of links) {
      const now = state[`rate.${link.name}`];
      const gbs = now ? parseFloat(now) : link.gbs;
      $(`rate-${link.name}`).value = Math.round((gbs / link.gbs) * 100);
      show(`rate.${link.name}`, `${three(gbs)} GB/s` + (now ? ` (× ${three(gbs / link.gbs)})` : ""), now);
    }
  }

  // Whether a control says what machine it is.
  const ofMachine = (name) => ["machine", "oversubscription"].includes(name) || name.startsWith("rate.");

  // Reads one control into the state.
  function take(input) {
    const percent = Number(input.value) / 100;
    if (input.dataset.rate) {
      const link = machine().links.find((one) => one.name === input.dataset.rate);
      const gbs = Number((link.gbs * percent).toPrecision(6));
      return set(`rate.${link.name}`, percent === 1 ? "" : `${gbs}GB/s`);
    }
    switch (input.id) {
      case "job": {
        // Values of the other kind of job mean nothing to it; what is different about the machine stays, on the
        // same one.
        const before = machineName();
        state = Object.fromEntries(Object.entries(state).filter(([name]) => ofMachine(name)));
        set("job", input.value === DEFAULT.job ? "" : input.value);
        if (machineName() !== before) state = Object.fromEntries(Object.entries(state).filter(([name]) => !ofMachine(name) || name === "machine"));
        return undefined;
      }
      case "machine":
        for (const name of Object.keys(state)) {
          if (name.startsWith("rate.") || ["nic", "kill", "oversubscription", "gpus"].includes(name)) delete state[name];
        }
        return set("machine", input.value === (training()?.machine ?? DEFAULT.machine) ? "" : input.value);
      case "size":
      case "bucket":
        return set(input.id, shortSize(2 ** Number(input.value)));
      case "oversubscription":
        return set("oversubscription", input.value === "1" ? "" : input.value);
      case "slow":
      case "rank":
        return set("slow", $("slow").value === "100" && input.id === "slow" ? "" : `${$("rank").value || 0}:${Number($("slow").value) / 100}`);
      case "nic":
      case "nic-name":
        return set("nic", $("nic").value === "100" || !$("nic-name").value ? "" : `${$("nic-name").value}:${Number($("nic").value) / 100}`);
      case "env":
        for (const name of Object.keys(state)) if (name.startsWith("env.")) delete state[name];
        for (const text of input.value.split(/\s+/).filter(Boolean)) {
          const [name, value] = text.split("=");
          set(`env.${name}`, value ?? "");
        }
        return undefined;
      default:
        return set(input.id, input.value);
    }
  }

  const withoutAxis = (of) => address(Object.fromEntries(Object.entries(of).filter(([name]) => name !== axisControl(of))));

  function change(began) {
    writeAddress();
    showControls();
    ask(began);
  }

  function curveOf(key) {
    let found = curves.get(key);
    if (!found) {
      if (curves.size > 200) curves.delete(curves.keys().next().value);
      found = { axis: null, points: [], known: new Map(), missing: new Map(), at: 0 };
      curves.set(key, found);
    }
    return found;
  }

  const post = (path, body, signal) => fetch(path, {
    method: "POST", signal, body: JSON.stringify(body),
    headers: { "content-type": "application/json", "x-lab-token": token },
  });

  async function ask(began) {
    asking?.abort();
    const own = new AbortController();
    asking = own;
    const asked = ++generation;
    const mine = curveOf(withoutAxis(state));
    mine.missing.clear();
    document.querySelector(".lab").classList.add("stale");
    clearTimeout(patience);
    patience = setTimeout(() => ($("title").textContent = "still simulating …"), 1500);
    const body = { page: PAGE, generation, have: [...mine.known.keys()], state };
    try {
      const answer = await post("/run", body, own.signal);
      if (!answer.ok) throw new Error(await answer.text());
      for await (const event of lines(answer.body)) {
        if (asking !== own) return;
        tell(event, mine, began, asked);
      }
      if (asking !== own) return;
      // What the server has given up.
      for (const at of mine.points) {
        if (!mine.known.has(at) && !mine.missing.has(at)) mine.missing.set(at, "not computed: it takes too long here");
      }
      redraw();
    } catch (error) {
      if (asking === own && error.name !== "AbortError") refuse("", `fabricsim does not answer: ${error.message}`);
    }
  }

  async function* lines(stream) {
    const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const parts = (rest + value).split("\n");
      rest = parts.pop();
      for (const part of parts) yield JSON.parse(part);
    }
  }

  function tell(event, mine, began, asked) {
    switch (event.event) {
      case "begin":
        Object.assign(mine, { axis: event.axis, points: event.points, at: event.points[0] });
        curve = mine;
        clearRefusal();
        mine.title = event.title;
        $("title").textContent = event.title;
        showNics(event.nics);
        showWarnings(event.warnings);
        // What is known of the place already is shown before it is worked out again.
        if (mine.known.has(mine.at)) showPoint(mine.known.get(mine.at), began);
        else redraw();
        break;
      case "point": {
        const was = mine.known.get(event.at);
        mine.known.set(event.at, event);
        if (event.at === mine.at && !was) showPoint(event, began);
        else redraw();
        break;
      }
      case "missing":
        mine.missing.set(event.at, event.message);
        redraw();
        break;
      case "detail":
        // Drawn a moment later: while a slider moves, the number and the curve go first.
        setTimeout(() => generation === asked && showDetail(event), 60);
        break;
      case "refused":
        refuse(event.control, event.message);
        break;
      case "given_up":
        if (!mine.known.has(mine.at)) refuse("", event.message);
        break;
    }
  }

  function showPoint(point, began) {
    document.querySelector(".lab").classList.remove("stale");
    clearTimeout(patience);
    $("title").textContent = curve.title;
    $("number").textContent = point.number;
    $("sentence").textContent = point.sentence;
    if (point.tiles) $("tiles").innerHTML = point.tiles;
    drawNow();
    if (began !== undefined) {
      // After the frame that shows it has been painted.
      requestAnimationFrame(() => setTimeout(() => performance.measure("input to figure", { start: began, end: performance.now() })));
    }
  }

  function showDetail(detail) {
    if (!training() && !state.algorithm && !state.protocol) {
      excluded.clear();
      for (const [name, why] of detail.excluded) excluded.set(name, why);
      if (document.activeElement !== $("algorithm")) showControls();
    }
    if (detail.sentence) $("sentence").textContent = detail.sentence;
    $("tiles").innerHTML = detail.tiles;
    for (const name of ["time", "timeline", "drawing", "tables"]) {
      $(name).innerHTML = detail[name];
      const section = $(`${name}-section`);
      if (section) section.hidden = !detail[name];
    }
    for (const root of document.querySelectorAll("#timeline .timeline, #tables .timeline")) showTimeline(root);
  }

  let waiting = false;
  function redraw() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      drawNow();
    });
  }
  function drawNow() {
    if (!curve?.axis) return;
    $("curve-section").hidden = false;
    const shown = curve.axis === "size" ? measure : "time";
    const others = [];
    for (const name of ["a", "b"]) {
      const pinned = pins[name] && curves.get(withoutAxis(pins[name].state));
      if (pinned?.axis === curve.axis && pinned !== curve) others.push([pinned, `pin-${name}`]);
    }
    drawCurve($("curve"), curve, others, shown, choose);
    $("measure").hidden = curve.axis !== "size";
    $("measure").textContent = measure === "busbw" ? "show time" : "show bus bandwidth";
    const done = curve.points.filter((x) => curve.known.has(x)).length;
    $("curve-aside").textContent = done < curve.points.length ? `${done} of ${curve.points.length} points computed` : "";
  }

  // A place of the axis is chosen in the drawing.
  function choose(place) {
    const began = performance.now();
    if (curve.axis === "speed") set("slow", place === 100 ? "" : `${$("rank").value || 0}:${place / 100}`);
    else set(curve.axis, shortSize(place));
    change(began);
  }

  function showNics(nics) {
    const names = nics.join();
    if ($("kill").dataset.names === names) return;
    $("kill").dataset.names = names;
    $("nic-name").replaceChildren(...nics.map((name) => option(name)));
    $("kill").replaceChildren(option("", "none"), ...nics.map((name) => option(name)));
    control("nic").hidden = control("kill").hidden = nics.length === 0;
    showControls();
  }

  function showWarnings(warnings) {
    $("warnings").hidden = warnings.length === 0;
    $("warnings").querySelector("ul").replaceChildren(...warnings.map((text) => Object.assign(document.createElement("li"), { textContent: text })));
  }

  function clearRefusal() {
    $("refused").hidden = true;
    document.querySelector(".lab").classList.remove("refused");
    for (const wrong of document.querySelectorAll(".wrong")) wrong.hidden = true;
  }
  // What is wrong stands at its control, else at the answer.
  function refuse(name, message) {
    clearRefusal();
    clearTimeout(patience);
    document.querySelector(".lab").classList.remove("stale");
    document.querySelector(".lab").classList.add("refused");
    $("title").textContent = "";
    $("number").textContent = "–";
    $("sentence").textContent = "";
    $("tiles").replaceChildren();
    const place = name && control(name) && !control(name).hidden ? control(name).querySelector(".wrong") : $("refused");
    place.textContent = message;
    place.hidden = false;
    if (place !== $("refused")) $("sentence").textContent = "This state has no results: see what is marked beside the controls.";
  }

  $("controls").addEventListener("input", (event) => {
    take(event.target);
    change(event.timeStamp);
  });
  $("controls").addEventListener("submit", (event) => event.preventDefault());
  $("measure").addEventListener("click", () => {
    measure = measure === "busbw" ? "time" : "busbw";
    drawNow();
  });
  // Two states beside each other.
  let comparing = null;
  let pinned = 0;
  async function showPins() {
    const both = pins.a && pins.b;
    $("pinned").hidden = !(pins.a || pins.b);
    $("pins").replaceChildren(...["a", "b"].filter((name) => pins[name]).map((name) => {
      const line = document.createElement("div");
      const badge = Object.assign(document.createElement("span"), { className: `badge ${name}`, textContent: name.toUpperCase() });
      const link = Object.assign(document.createElement("a"), { href: `#${address(pins[name].state)}`, textContent: describe(pins[name].state) });
      link.addEventListener("click", (event) => {
        event.preventDefault();
        state = { ...pins[name].state };
        change(performance.now());
      });
      const off = Object.assign(document.createElement("button"), { type: "button", textContent: "take off" });
      off.addEventListener("click", () => pin(name, null));
      line.append(badge, link, " ", off);
      return line;
    }));
    comparing?.abort();
    const wait = Object.assign(document.createElement("p"), { className: "note", textContent: both ? "Simulating what makes the difference …" : "Pin a second state to see what makes the difference." });
    $("waterfall").replaceChildren(wait);
    redraw();
    if (!both) return;
    const own = (comparing = new AbortController());
    pinned++;
    try {
      const answer = await post("/run", { page: `${PAGE}-pins`, generation: pinned, state: pins.a.state, beside: pins.b.state }, own.signal);
      if (!answer.ok) throw new Error(await answer.text());
      for await (const event of lines(answer.body)) {
        if (comparing !== own) return;
        const said = Object.assign(document.createElement("p"), { textContent: event.answer ?? event.message });
        if (event.event === "refused") said.className = "bad";
        $("waterfall").innerHTML = event.html ?? "";
        $("waterfall").prepend(said);
      }
    } catch (error) {
      if (error.name !== "AbortError") wait.textContent = `fabricsim does not answer: ${error.message}`;
    }
  }
  function describe(of) {
    const named = { job: DEFAULT.job, ...of };
    return Object.entries(named).map(([name, value]) => (name === "job" ? value : `${name} ${value}`)).join(", ");
  }
  function pin(name, of) {
    // Whole: a default that is not written would be that of another state.
    pins[name] = of && { state: { ...of, ...(training() ? {} : { size: of.size ?? shortSize(DEFAULT.size) }) } };
    writeAddress();
    showPins();
  }
  $("pin-a").addEventListener("click", () => pin("a", state));
  $("pin-b").addEventListener("click", () => pin("b", state));
  $("reset").addEventListener("click", () => {
    state = {};
    pins.a = pins.b = null;
    showPins();
    change(performance.now());
  });
  $("save").addEventListener("click", async () => {
    const answer = await post("/scenario", { page: PAGE, generation, state });
    const text = await answer.text();
    if (!answer.ok) {
      const { control: name, message } = JSON.parse(text);
      return refuse(name, message);
    }
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text + "\n"], { type: "application/json" }));
    link.download = "lab.json";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
  window.addEventListener("hashchange", () => {
    state = readAddress();
    showControls();
    showPins();
    ask();
  });
  new ResizeObserver(redraw).observe($("curve"));
  showControls();
  showPins();
  ask(0);
})();
