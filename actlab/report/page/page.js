// Figures, controls, tables and links of a page. Nothing here uses the network.
const THEME = JSON.parse(document.getElementById("theme").textContent);
const AXIS = 56, GAP = 24; // pixels beside the panels: the axis of the first, the gap after each
const ERRORS = 1; // what Vega logs; it would warn of a layer that a control has emptied
const views = new Map(); // drawing -> its Vega view and the params of its spec

const every = (selector, of = document) => [...of.querySelectorAll(selector)];

function valueOf(control) {
  if (control.matches("fieldset")) {
    const groups = controlsOf(control).filter((one) => one.dataset.param === control.dataset.param);
    return groups.flatMap((group) => every("input:checked", group).map((box) => box.value));
  }
  return control.type === "range" ? Number(control.value) : control.value;
}

function controlsOf(block) {
  const home = block.closest("section");
  return home ? every("[data-param]", home) : [];
}

// As many panels in a row as fit at their least width; then they share the remaining width.
function layOut(spec, data, drawing) {
  const { columns, rows } = Object.values(data).find((table) => table.columns.includes(spec.facet.field));
  const panels = new Set(rows.map((row) => row[columns.indexOf(spec.facet.field)])).size;
  const own = spec.resolve?.scale?.y === "independent"; // an axis for each panel
  const each = own ? GAP + AXIS : GAP;
  const room = drawing.clientWidth - (own ? 0 : AXIS);
  const fitting = Math.floor(room / (spec.spec.width + each));
  spec.columns = Math.max(1, Math.min(fitting, panels));
  spec.spec.width = Math.max(120, Math.floor(room / spec.columns) - each);
  return `${spec.columns} x ${spec.spec.width}`;
}

const hasPanels = (spec) => spec.facet && !spec.facet.row && !spec.facet.column;

function specOf(drawing) {
  return JSON.parse(drawing.parentElement.querySelector("script").textContent);
}

function objects({ columns, rows }) {
  return rows.map((row) => Object.fromEntries(columns.map((column, index) => [column, row[index]])));
}

async function draw(drawing) {
  const { spec, data } = specOf(drawing);
  spec.datasets = Object.fromEntries(Object.entries(data).map(([name, table]) => [name, objects(table)]));
  for (const control of controlsOf(drawing)) {
    const param = (spec.params ?? []).find((one) => one.name === control.dataset.param);
    if (param) param.value = valueOf(control);
  }
  if (hasPanels(spec)) drawing.dataset.layout = layOut(spec, data, drawing);
  const options = { actions: false, ast: true, config: THEME, logLevel: ERRORS, renderer: "svg", tooltip: { disableDefaultStyle: true } };
  views.get(drawing)?.view.finalize(); // or its listeners stay after a resize
  const { view } = await window.vegaEmbed(drawing.firstElementChild, spec, options);
  view.addEventListener("click", (_, item) => item?.datum?.link && go(item.datum.link));
  views.set(drawing, { view, params: (spec.params ?? []).map((param) => param.name) });
}

function listen(control) {
  const tell = () => {
    const output = control.parentElement.querySelector("output");
    if (output && control.type === "range") output.value = control.value;
    for (const drawing of every(".drawing", control.closest("section"))) {
      const { view, params } = views.get(drawing) ?? { params: [] };
      if (params.includes(control.dataset.param)) view.signal(control.dataset.param, valueOf(control)).runAsync();
    }
    every("[data-follows]", control.closest("section")).forEach(follow);
  };
  control.addEventListener("input", tell);
  for (const button of every("[data-all]", control)) {
    button.addEventListener("click", () => {
      for (const box of every("input", control)) box.checked = Boolean(button.dataset.all);
      tell();
    });
  }
}

// A row is shown while every control that its table follows contains the row's cell of that column.
function follow(holder) {
  const wanted = Object.entries(JSON.parse(holder.dataset.follows)).map(([param, index]) => {
    const value = valueOf(controlsOf(holder).find((one) => one.dataset.param === param));
    const keyOf = ({ dataset, textContent }) => (typeof value === "number" ? Number(dataset.order) : textContent.trim());
    return (row) => [value].flat().includes(keyOf(row.cells[index]));
  });
  for (const row of holder.querySelector("tbody").rows) row.hidden = !wanted.every((holds) => holds(row));
}

function sortBy(table, heading) {
  const index = [...heading.parentElement.children].indexOf(heading);
  const down = heading.getAttribute("aria-sort") === "ascending";
  const body = table.tBodies[0];
  const key = (row) => row.cells[index].dataset.order ?? row.cells[index].textContent.trim();
  const compare = (one, other) => {
    const [a, b] = [key(one), key(other)];
    const [x, y] = [a === "" ? NaN : Number(a), b === "" ? NaN : Number(b)];
    if (Number.isNaN(x) && Number.isNaN(y)) return (down ? -1 : 1) * a.localeCompare(b);
    // Cells without a number stay last in both directions.
    if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) ? 1 : -1;
    return (down ? -1 : 1) * (x - y);
  };
  body.append(...[...body.rows].sort(compare));
  for (const other of heading.parentElement.children) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", down ? "descending" : "ascending");
}

const bare = (text) => text.replace(/\s/g, "");

function filter(holder, words) {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  const rows = holder.querySelector("tbody").rows;
  for (const row of rows) {
    // A word matches a whole cell when it is written with an equals sign before it.
    const cells = [...row.cells].map((cell) => cell.textContent.toLowerCase());
    const text = cells.join(" ");
    const hit = wanted.every((word) => (word.startsWith("=") ? cells.some((cell) => bare(cell) === word.slice(1)) : text.includes(word)));
    row.hidden = !hit;
    shown += hit;
  }
  holder.querySelector("output").value = shown === rows.length ? `${shown} rows` : `${shown} of ${rows.length} rows`;
}

function go(place, words) {
  const target = document.getElementById(place);
  if (!target) return;
  const search = target.querySelector("input[type=search]");
  if (words && search) {
    search.value = words;
    filter(target, words);
  }
  if (location.hash === `#${place}`) unfold(); // setting an equal hash fires no event
  location.hash = place;
}

function unfold() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  for (let one = target; one; one = one.parentElement) if (one.matches("details")) one.open = true;
  target?.scrollIntoView();
}

async function start() {
  every("[data-param]").forEach(listen);
  every("[data-follows]").forEach(follow);
  for (const form of every("form")) form.addEventListener("submit", (event) => event.preventDefault());
  for (const heading of every(".table th")) {
    heading.querySelector("button").addEventListener("click", () => sortBy(heading.closest("table"), heading));
  }
  for (const search of every(".table input[type=search]")) {
    search.addEventListener("input", () => filter(search.closest(".table"), search.value));
  }
  for (const link of every("a[data-words]")) {
    link.addEventListener("click", (event) => {
      event.preventDefault();
      go(link.hash.slice(1), link.dataset.words);
    });
  }
  // One by one, so that the first figures can be read while the rest are drawn.
  for (const drawing of every(".drawing")) await draw(drawing);
  // Drawing again is slow: only where the number or width of the panels changes.
  new ResizeObserver(() => {
    for (const drawing of every(".drawing[data-layout]")) {
      const { spec, data } = specOf(drawing);
      if (drawing.dataset.layout !== layOut(spec, data, drawing)) draw(drawing);
    }
  }).observe(document.body);
  window.addEventListener("hashchange", unfold);
  if (location.hash) unfold();
  document.body.dataset.ready = "true"; // what tests in a browser wait for
}

start();
