"use strict";
(() => {
const data = JSON.parse(document.getElementById("data").textContent);
const get = (id) => document.getElementById(id);
const canvas = get("canvas"), world = get("world"), map = get("map"), panel = get("panel"), page = document.querySelector(".page");
const nodes = data.nodes, root = data.level, boxes = [];
const GAP_X = 22, GAP_Y = 30, PAD = 16, HEAD = 40, SWEEPS = 10;
const escapes = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
const escape = (text) => String(text).replace(/[&<>"]/g, (letter) => escapes[letter]);
get("label").textContent = document.title.replace(/^oplib graph · /, "");

// ---- boxes in boxes: which of them are around a node

const around = new Map(); // from the number of a node to the boxes around it; a turn that is not drawn has some too
(function walk(level, chain) {
  for (const part of level.parts) {
    if (!part.head) { if (!around.has(part.node) || !part.leaf) around.set(part.node, chain); continue; }
    part.id = boxes.push(part) - 1;
    part.chain = [...chain, part];
    for (const number of part.members) around.set(number, part.chain);
    if (part.level) walk(part.level, part.chain);
  }
})(root, []);

// ---- the layout of a level: the same as place() in layout.py and draw_level() in svg.py

function place(level, ends) {
  const widths = ends.map((end) => end.size[0]);
  for (const row of level.rows) for (const v of row) widths[v] ??= 10;
  const above = widths.map(() => []), below = widths.map(() => []), shifts = new Map();
  for (const [start, to, value] of level.links)
    shifts.set(start + "," + to, [ends[start].leave[value] || 0, ends[to].enter[value] || 0]);
  for (const path of level.paths) {
    const [first, last] = shifts.get(path[0] + "," + path[path.length - 1]) || [0, 0];
    for (let i = 0; i + 1 < path.length; i++) {
      const by = (i === 0 ? first : 0) - (i + 2 === path.length ? last : 0);
      below[path[i]].push([path[i + 1], -by]);
      above[path[i + 1]].push([path[i], by]);
    }
  }
  const x = new Float64Array(widths.length);
  for (const row of level.rows) spread(row, row.map(() => 0), widths, x);
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const near = sweep % 2 ? below : above;
    for (const row of sweep % 2 ? [...level.rows].reverse() : level.rows)
      spread(row, row.map((v) => near[v].length
        ? near[v].reduce((sum, [one, by]) => sum + x[one] + by, 0) / near[v].length : x[v]), widths, x);
  }
  let left = Infinity, right = -Infinity, top = 0;
  widths.forEach((width, v) => { left = Math.min(left, x[v] - width / 2); right = Math.max(right, x[v] + width / 2); });
  const points = [];
  for (const row of level.rows) {
    const height = row.reduce((most, v) => Math.max(most, ends[v] ? ends[v].size[1] : 0), 0);
    for (const v of row) points[v] = [x[v] - left, top + height / 2];
    top += height + GAP_Y;
  }
  return { points, size: [right - left, Math.max(top - GAP_Y, 1)] };
}

function spread(row, wanted, widths, x) {
  const joined = [], offsets = [];
  row.forEach((v, i) => {
    offsets.push(i ? offsets[i - 1] + (widths[row[i - 1]] + widths[v]) / 2 + GAP_X : 0);
    let total = wanted[i] - offsets[i], count = 1;
    while (joined.length && joined[joined.length - 1][0] / joined[joined.length - 1][1] > total / count) {
      const [more, members] = joined.pop();
      total += more; count += members;
    }
    joined.push([total, count]);
  });
  let i = 0;
  for (const [total, count] of joined)
    for (let k = 0; k < count; k++, i++) x[row[i]] = total / count + offsets[i];
}

// ---- drawing

function curve(points) {
  let text = `M${points[0][0].toFixed(1)} ${points[0][1].toFixed(1)}`;
  for (let i = 1; i < points.length; i++) {
    const [x, y] = points[i - 1], [u, v] = points[i], middle = (y + v) / 2;
    text += Math.abs(x - u) < 0.5 ? `L${u.toFixed(1)} ${v.toFixed(1)}`
      : `C${x.toFixed(1)} ${middle.toFixed(1)} ${u.toFixed(1)} ${middle.toFixed(1)} ${u.toFixed(1)} ${v.toFixed(1)}`;
  }
  return text;
}

function drawLevel(level, box) {
  const ends = level.parts.map(drawPart);
  while (ends.length < level.total) ends.push({ size: [10, 0], text: "", enter: {}, leave: {} });
  const layout = place(level, ends), leaves = Object.keys(level.leave).length;
  let [width, height] = layout.size, across = 0, down = 0;
  if (box) {
    down = HEAD - GAP_Y + 8;
    width = Math.max(width + 2 * PAD, box.least);
    across = (width - layout.size[0]) / 2;
    height += down + (leaves ? 0 : PAD);
  }
  const points = layout.points.map(([x, y]) => [x + across, y + down]);
  for (const v of Object.values(level.enter)) points[v][1] = 0;
  for (const v of Object.values(level.leave)) points[v][1] = height + 1;
  const frames = [], bodies = [];
  level.parts.forEach((part, v) => {
    const [w, h] = ends[v].size, [x, y] = [points[v][0] - w / 2, points[v][1] - h / 2];
    const at = `transform="translate(${x.toFixed(1)} ${y.toFixed(1)})"`;
    part.spot = [x, y, w, h];
    if (part.head) frames.push(`<g class="border ${part.open ? "open" : "closed"}" ${at}><rect class="frame" width="${w}" height="${h}" rx="12"/></g>`);
    bodies.push(`<g ${at}${part.head ? ` class="block ${part.open ? "open" : "closed"}" id="b${part.id}"` : ""}>${ends[v].text}</g>`);
  });
  const values = (ports) => Object.fromEntries(Object.entries(ports).map(([value, v]) => [value, points[v][0] - width / 2]));
  return { size: [width, height], text: frames.join("") + drawEdges(level, points, ends) + bodies.join(""),
    enter: values(level.enter), leave: values(level.leave) };
}

const has = (ports) => Object.keys(ports).length > 0;

function drawEdges(level, points, ends) {
  const drawn = new Map(), paths = new Map(level.paths.map((path) => [path[0] + "," + path[path.length - 1], path]));
  for (const [start, to, value, classes, style] of level.links) {
    const path = paths.get(start + "," + to).map((v) => [...points[v]]), last = path.length - 1;
    const origin = ends[start], target = ends[to];
    path[0][0] += origin.leave[value] || 0;
    path[0][1] += origin.size[1] / 2;
    path[last][0] += target.enter[value] || 0;
    path[last][1] -= target.size[1] / 2 + 1;
    const key = [start, to, origin.text && !has(origin.leave) ? "" : value].join();
    const out = has(target.enter) || !target.text ? " out" : "";
    if (!drawn.has(key) || classes.includes("bad"))
      drawn.set(key, `<path class="${classes}${out}"${style} d="${curve(path)}"/>`);
  }
  return [...drawn.values()].join("");
}

function drawPart(part) {
  if (!part.head) return { size: part.size, text: part.body, enter: {}, leave: {} };
  const inner = part.open ? drawLevel(part.level, part) : { size: part.size, text: part.note, enter: {}, leave: {} };
  const [w, h] = inner.size, can = part.level;
  const fold = can ? `<text class="fold" x="14" y="19">${part.open ? "▾" : "▸"}</text>` : "";
  const role = can ? ` tabindex="0" role="button" aria-expanded="${part.open}" aria-label="${escape(part.title)}"` : "";
  const area = `<rect class="fold-area" data-b="${part.id}"${role} width="${w}" height="${part.open ? HEAD : h}" rx="12" fill="transparent"/>`;
  return { ...inner, text: inner.text + fold + part.head + area };
}

let extent = [0, 0];

function draw() {
  const drawing = drawLevel(root);
  extent = drawing.size;
  world.innerHTML = drawing.text;
  drawMap();
  mark();
}

// ---- zoom and pan

const view = { x: 0, y: 0, k: 1 };

function move() {
  world.setAttribute("transform", `translate(${view.x} ${view.y}) scale(${view.k})`);
  const box = canvas.getBoundingClientRect(), frame = map.querySelector(".window");
  if (!frame) return;
  frame.setAttribute("x", -view.x / view.k);
  frame.setAttribute("y", -view.y / view.k);
  frame.setAttribute("width", box.width / view.k);
  frame.setAttribute("height", box.height / view.k);
}

function zoom(by, x, y) {
  const k = Math.min(4, Math.max(0.02, view.k * by));
  view.x = x - ((x - view.x) * k) / view.k;
  view.y = y - ((y - view.y) * k) / view.k;
  view.k = k;
  move();
}

const readable = () => (canvas.getBoundingClientRect().width < 600 ? 0.65 : 0.8);

function fit() { // everything if it can be read then; else a column from the top, as wide as the page allows
  const box = canvas.getBoundingClientRect();
  const left = getComputedStyle(map).display === "none" ? 12 : 180;
  const free = [Math.max(box.width - left - 12, 50), Math.max(box.height - 66, 50)];
  const wide = Math.min(free[0] / extent[0], 1.15);
  view.k = Math.max(Math.min(wide, free[1] / extent[1]), Math.min(wide, 1), readable());
  const top = root.parts[root.rows[0].find((v) => v < root.parts.length)].spot;
  view.x = extent[0] * view.k <= free[0] ? left + (free[0] - extent[0] * view.k) / 2
    : left + Math.max(Math.min(free[0] / 2 - (top[0] + top[2] / 2) * view.k, 0), free[0] - extent[0] * view.k);
  view.y = 50 + Math.max(free[1] - extent[1] * view.k, 0) / 2;
  move();
}

function show(x, y) { // brings a point of the picture to the middle
  const box = canvas.getBoundingClientRect();
  view.x = box.width / 2 - x * view.k;
  view.y = box.height / 2 - y * view.k;
  move();
}

function drawMap() {
  const parts = [];
  (function walk(level, left, top) {
    for (const part of level.parts) {
      const [x, y, w, h] = part.spot, name = part.head ? "b" : part.body.match(/class="node ([^"]+)"/)[1];
      parts.push(`<rect class="${name}" x="${left + x}" y="${top + y}" width="${w}" height="${h}" rx="8"/>`);
      if (part.open) walk(part.level, left + x, top + y);
    }
  })(root, 0, 0);
  map.setAttribute("viewBox", `-20 -20 ${extent[0] + 40} ${extent[1] + 40}`);
  map.innerHTML = parts.join("") + '<rect class="window" rx="4"/>';
}

const pointers = new Map();
let start = null, pinch = 0;
canvas.addEventListener("pointerdown", (event) => {
  pointers.set(event.pointerId, [event.clientX, event.clientY]);
  start = { x: event.clientX, y: event.clientY, moved: false };
});
canvas.addEventListener("pointermove", (event) => {
  const before = pointers.get(event.pointerId);
  if (!before || !start) return;
  pointers.set(event.pointerId, [event.clientX, event.clientY]);
  if (pointers.size === 2) {
    const [[a, b], [c, d]] = [...pointers.values()], apart = Math.hypot(a - c, b - d), box = canvas.getBoundingClientRect();
    if (pinch) zoom(apart / pinch, (a + c) / 2 - box.left, (b + d) / 2 - box.top);
    pinch = apart; start.moved = true;
    return;
  }
  if (Math.hypot(event.clientX - start.x, event.clientY - start.y) > 4 && !start.moved) {
    start.moved = true;
    canvas.setPointerCapture(event.pointerId);
    canvas.classList.add("moving");
  }
  if (!start.moved) return;
  view.x += event.clientX - before[0];
  view.y += event.clientY - before[1];
  move();
});
for (const name of ["pointerup", "pointercancel"])
  canvas.addEventListener(name, (event) => {
    pointers.delete(event.pointerId);
    pinch = 0;
    canvas.classList.remove("moving");
  });
canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  const box = canvas.getBoundingClientRect();
  zoom(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0015)), event.clientX - box.left, event.clientY - box.top);
}, { passive: false });
canvas.addEventListener("click", (event) => {
  if (start && start.moved) return;
  const node = event.target.closest(".node"), fold = event.target.closest(".fold-area");
  if (node) select(+node.dataset.n);
  else if (fold) toggle(+fold.dataset.b);
  else select(null);
});
const goTo = (event) => {
  const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(map.getScreenCTM().inverse());
  show(point.x, point.y);
};
map.addEventListener("pointerdown", goTo);
map.addEventListener("pointermove", (event) => { if (event.buttons) goTo(event); });
const middle = (by) => { const box = canvas.getBoundingClientRect(); zoom(by, box.width / 2, box.height / 2); };
get("zoom-in").onclick = () => middle(1.3);
get("zoom-out").onclick = () => middle(1 / 1.3);
get("fit").onclick = () => fit();
document.addEventListener("keydown", (event) => {
  if (event.target !== document.body && !canvas.contains(event.target)) return;
  const screen = canvas.getBoundingClientRect().height * 0.8, fold = event.target.dataset.b;
  const steps = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60], PageUp: [0, screen], PageDown: [0, -screen] };
  if (fold && (event.key === "Enter" || event.key === " ")) toggle(+fold);
  else if (event.key in steps) { view.x += steps[event.key][0]; view.y += steps[event.key][1]; move(); }
  else if (event.key === "+" || event.key === "=") middle(1.3);
  else if (event.key === "-") middle(1 / 1.3);
  else if (event.key === "0") fit();
  else if (event.key === "Escape") select(null);
  else return;
  event.preventDefault();
});

// ---- folding

function toggle(id) {
  const box = boxes[id];
  describeBox(box);
  if (!box.level) return;
  const before = get("b" + id).getBoundingClientRect();
  box.open = !box.open;
  draw();
  const after = get("b" + id).getBoundingClientRect(); // the box stays where it was on the screen
  view.x += before.left - after.left;
  view.y += before.top - after.top;
  move();
  world.querySelector(`[data-b="${id}"]`).focus();
}

const MOST_AT_ONCE = 3000;
function setAll(open) {
  let left = MOST_AT_ONCE;
  for (const box of boxes) {
    if (!box.level) continue;
    left -= box.level.parts.length;
    box.open = open && left >= 0 && box.chain.every((one) => one === box || one.open);
  }
  draw();
  fit();
}
get("open-all").onclick = () => setAll(true);
get("close-all").onclick = () => setAll(false);

// ---- selection and the panel

let selected = null;

function select(number, bring = false) {
  selected = number;
  if (number !== null && bring && around.has(number)) {
    const closed = around.get(number).filter((box) => box.level && !box.open);
    for (const box of closed) box.open = true;
    if (closed.length) draw();
    const last = around.get(number).at(-1);
    const found = world.querySelector(`.node[data-n="${number}"]`) || (last && get("b" + last.id));
    if (found) {
      if (view.k < readable()) { view.k = 1; move(); }
      const at = found.getBoundingClientRect(), frame = canvas.getBoundingClientRect();
      show((at.left + at.width / 2 - frame.left - view.x) / view.k, (at.top + Math.min(at.height, frame.height) / 2 - frame.top - view.y) / view.k);
    }
  }
  mark();
  if (number === null || !nodes[number]) describeGraph(); else describeNode(number);
}

function mark() {
  for (const one of document.querySelectorAll(".selected")) one.classList.remove("selected");
  if (selected === null) return;
  for (const one of world.querySelectorAll(`.node[data-n="${selected}"]`)) one.classList.add("selected");
  document.querySelector(`#curve [data-n="${selected}"]`)?.classList.add("selected");
}

const table = (head, rows) => `<table><tr>${head.map((one) => `<th>${one}</th>`).join("")}</tr>${rows
  .map((row) => `<tr>${row.map((cell) => (cell && cell.bad ? `<td class="bad">${cell.bad}</td>` : `<td>${cell}</td>`)).join("")}</tr>`)
  .join("")}</table>`;

function describeNode(number) {
  const node = nodes[number];
  const parts = [`<h2>${escape(node.op)}<span class="badge">${node.kind}</span></h2>`,
    `<p class="mono soft">${escape(node.name)} · ${escape(node.shapes.join(", "))}</p>`];
  if (node.first) parts.push(`<div class="alarm-box"><b>The first gradient that is not finite.</b><br>${escape(node.first)}</div>`);
  if (node.hooks) parts.push(`<p>${node.hooks} ${node.hooks > 1 ? "hooks run" : "hook runs"} with it.</p>`);
  if (node.file) {
    parts.push(`<h3>Recorded at</h3><p class="mono">${escape(node.place)} in ${escape(node.function)}</p>`);
    const lines = data.sources[node.file] || {};
    const near = Object.keys(lines).map(Number).filter((line) => Math.abs(line - node.line) < 4).sort((a, b) => a - b);
    if (near.length) parts.push("<pre>" + near.map((line) =>
      `<span class="${line === node.line ? "here" + (node.first ? " bad" : "") : ""}"><i>${line}</i>${escape(lines[line])}</span>`).join("") + "</pre>");
  }
  const measured = [["arrives", node.arrives], ["leaves", node.leaves]].flatMap(([name, list]) => (list || []).map((one, place) =>
    one ? [name + (list.length > 1 ? " " + place : ""), escape(one[0]), one[1], one[2], one[3] ? { bad: one[3] } : "–"] : null)).filter(Boolean);
  if (measured.length) parts.push("<h3>Gradients</h3>", table(["", "shape", "rms", "largest", "not finite"], measured));
  else if (!data.ran) parts.push('<h3>Gradients</h3><p class="soft">graph(loss, run=True) measures them.</p>');
  parts.push("<h3>Saved for backward</h3>");
  if (node.saved) parts.push(table(["name", "shape", "size"], node.saved.map((one) => one.map(escape))));
  else parts.push(`<p class="soft">${node.freed ? "A backward has freed it." : "Nothing."}</p>`);
  panel.innerHTML = parts.join("");
  panel.scrollTop = 0;
}

function describeBox(box) {
  const inside = box.members.filter((number) => nodes[number]).slice(-200);
  panel.innerHTML = `<h2>${escape(box.title)}</h2><p class="mono soft">${escape(box.facts)}</p>` + (box.level
    ? "<h3>Nodes</h3>" + table(["op", "shape", "line"], inside.map((number) => [link(number), escape(nodes[number].shapes.join(", ")), escape(nodes[number].place || "")]))
    : '<p class="soft">The graph has too many nodes to open this box.</p>');
  panel.scrollTop = 0;
}

const link = (number) => `<a tabindex="0" role="button" data-go="${number}">${escape(nodes[number].op)}</a>`;
for (const name of ["click", "keydown"]) panel.addEventListener(name, (event) => {
  if (event.target.dataset.go && (name === "click" || event.key === "Enter")) select(+event.target.dataset.go, true);
});

function describeGraph() {
  const rows = data.functions.map(([name, place, count, bytes, ops]) =>
    [`${escape(name)}<br><span class="soft mono">${escape(place)}</span>`, ops.map(([op, times]) => escape(op) + (times > 1 ? " ×" + times : "")).join(", "), count.toLocaleString(), bytes]);
  const first = data.first !== null && nodes[data.first]
    ? `<div class="alarm-box"><b>A gradient is not finite.</b><br>The first comes from ${link(data.first)}.</div>` : "";
  panel.innerHTML = `<h2>Functions</h2><p class="soft">Select a node for its line, gradients and saved tensors. A click on the title of a box opens or closes it. Keys: / searches, arrows move, + and − zoom, 0 fits, Tab and Enter open a box.</p>${first}<h3>Recorded by</h3>`
    + table(["function", "ops", "nodes", "saved"], rows);
}

// ---- search: of words that stand in op, name, shapes, line and function of a node

const search = get("search");
let found = [], at = -1;
const textOf = (node) => [node.op, node.name, ...node.shapes, node.place || "", node.function || ""].join(" ").toLowerCase();
search.addEventListener("input", () => {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  found = []; at = -1;
  if (words.length) Object.entries(nodes).forEach(([number, node]) => {
    const text = textOf(node);
    if (words.every((word) => text.includes(word))) found.push(+number);
  });
  search.classList.toggle("none", words.length > 0 && !found.length);
});
search.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && found.length) {
    at = (at + (event.shiftKey ? found.length - 1 : 1)) % found.length;
    select(found[Math.max(at, 0)], true);
  } else if (event.key === "Escape") { search.value = ""; found = []; canvas.focus(); }
  else return;
  event.preventDefault();
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.target === search) return;
  event.preventDefault();
  search.focus();
});

// ---- views

const views = [["nan", "NaN", data.first !== null, "Every gradient is finite, or graph(loss, run=True) has not run."],
  ["ops", "Ops", true, ""], ["memory", "Saved memory", true, ""],
  ["gradients", "Gradients", data.ran, "graph(loss, run=True) measures gradients."]];
const legends = {
  nan: ['<i class="f"></i>first not finite', '<i class="w"></i>not finite'],
  ops: ['<i class="m"></i>memory that the node keeps'],
  memory: ['<i class="o"></i>bytes that the node keeps'],
  gradients: ['<i class="g"></i>rms of the gradient, by powers of ten'],
};

function setView(name) {
  for (const [one] of views) page.classList.toggle("view-" + one, one === name);
  for (const button of get("views").children) button.setAttribute("aria-pressed", button.dataset.view === name);
  get("legend").innerHTML = ['<i class="c"></i>registered op', "<i></i>built-in op", '<i class="p"></i>parameter', '<i class="h"></i>hook', ...legends[name]]
    .map((one) => `<span>${one}</span>`).join("");
}
get("views").innerHTML = views.map(([name, title, can, why]) =>
  `<button data-view="${name}" ${can ? "" : `disabled title="${why}"`}>${title}</button>`).join("");
get("views").addEventListener("click", (event) => { if (event.target.dataset.view) setView(event.target.dataset.view); });
get("theme").onclick = () => {
  const dark = page.classList.contains("dark") || (!page.classList.contains("light") && matchMedia("(prefers-color-scheme: dark)").matches);
  page.classList.toggle("dark", !dark);
  page.classList.toggle("light", dark);
};

// ---- the curve of saved memory

function showBytes(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (count >= 1000 && at < 4) { count /= 1024; at++; }
  return `${+count.toPrecision(3)} ${units[at]}`;
}

function drawCurve() {
  const svg = get("curve"), box = svg.getBoundingClientRect(), points = data.curve;
  if (!box.width || !points.length) return;
  const w = box.width, h = box.height, most = Math.max(1, ...points.map((one) => one[2]));
  get("peak").textContent = `Peak ${showBytes(most)}`;
  const x = (i) => 4 + (points.length > 1 ? (i * (w - 8)) / (points.length - 1) : 0);
  const y = (bytes) => h - 16 - (bytes / most) * (h - 40);
  let line = `M${x(0)} ${y(points[0][2])}`;
  for (let i = 1; i < points.length; i++) line += `H${x(i).toFixed(1)}V${y(points[i][2]).toFixed(1)}`;
  const parts = [`<path class="area" d="${line}V${h - 16}H${x(0)}Z"/><path class="step" d="${line}"/>`];
  if (points.length <= 300)
    points.forEach(([number, op, total, more], i) =>
      parts.push(`<circle data-n="${number}" cx="${x(i).toFixed(1)}" cy="${y(total).toFixed(1)}" r="2.6"><title>${escape(op)} +${showBytes(more)}</title></circle>`));
  const taken = [];
  for (const i of [...points.keys()].sort((a, b) => points[b][3] - points[a][3]).slice(0, 12)) {
    const [, op, total, more] = points[i], text = `${op} +${showBytes(more)}`, wide = text.length * 6.3;
    const right = x(i) - 6, left = right - wide, up = y(total) - 5;
    if (!more || more < most / 30 || x(i) - 6 < wide || taken.some(([a, b, v]) => left < b + 8 && right > a - 8 && Math.abs(up - v) < 14)) continue;
    taken.push([left, right, up]);
    parts.push(`<text x="${right.toFixed(1)}" y="${up.toFixed(1)}" text-anchor="end"><tspan class="big">${escape(op)}</tspan> +${showBytes(more)}</text>`);
  }
  parts.push(`<text x="2" y="${h - 3}">first call</text><text x="${w - 2}" y="${h - 3}" text-anchor="end">loss</text>`);
  svg.innerHTML = parts.join("");
  mark();
}
get("curve").addEventListener("click", (event) => { if (event.target.dataset.n) select(+event.target.dataset.n, true); });

// ---- begin

addEventListener("resize", () => { drawCurve(); move(); });
setView(data.first !== null ? "nan" : "ops");
draw();
fit();
if (data.first !== null && nodes[data.first]) select(data.first, true); else describeGraph();
drawCurve();
})();
