// Figures, controls, tables, records and links of a page. Nothing here uses the network.
const THEME = JSON.parse(document.getElementById("theme").textContent);
const AXIS = 56, GAP = 24; // pixels beside the panels: the axis of the first, the gap after each
const ROWS = 50; // of a table, before all are asked for
const ERRORS = 1; // what Vega logs; it would warn of a layer that a control has emptied
const views = new Map(); // drawing -> its Vega view and the params of its spec
const tables = new Map(); // the element around a table -> what it shows

const every = (selector, of = document) => [...of.querySelectorAll(selector)];
const contentOf = (element) => JSON.parse(element.querySelector(":scope > script").textContent);

function element(name, attributes = {}, ...children) {
  const one = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) one.setAttribute(key, value);
  one.append(...children);
  return one;
}

// Controls. A control in the bar acts on the whole page, another on its section.

const boxesOf = (fieldset) => every("input[type=checkbox]", fieldset);

function valueOf(control) {
  if (control.matches("fieldset")) {
    const groups = every("fieldset", homeOf(control)).filter((one) => one.dataset.param === control.dataset.param);
    return groups.flatMap((group) => boxesOf(group).filter((box) => box.checked).map((box) => box.value));
  }
  return control.type === "range" ? Number(control.value) : control.value;
}

const homeOf = (control) => control.closest("section, .bar") ?? document.body;

function controlsOf(block) {
  const own = block.closest("section");
  return [...every(".bar [data-param]"), ...(own ? every("[data-param]", own) : [])];
}

const valuesFor = (block) => Object.fromEntries(controlsOf(block).map((one) => [one.dataset.param, valueOf(one)]));

function label(control) {
  const output = control.closest("label, .pop")?.querySelector("output");
  if (!output) return;
  if (control.type === "range") output.value = control.value;
  else {
    const boxes = boxesOf(control), chosen = boxes.filter((box) => box.checked);
    output.value = chosen.length === boxes.length ? `all ${boxes.length}` : chosen.length > 3 || !chosen.length ? `${chosen.length} of ${boxes.length}` : chosen.map((box) => box.value).join(", ");
  }
}

function tell(control) {
  label(control);
  const home = control.closest("section") ?? document;
  for (const drawing of every(".drawing", home)) {
    const { view, params } = views.get(drawing) ?? { params: [] };
    if (drawing.dataset.layout && drawing.dataset.layout !== layOut(specOf(drawing), drawing)) draw(drawing);
    else if (params.includes(control.dataset.param)) view.signal(control.dataset.param, valueOf(control)).runAsync();
  }
  for (const [holder, table] of tables) if (home.contains(holder) && table.follows) show(holder);
}

function listen(control) {
  control.addEventListener("input", () => {
    tell(control);
    writeAddress();
  });
  for (const button of every("[data-all]", control)) {
    button.addEventListener("click", () => {
      for (const box of boxesOf(control)) box.checked = Boolean(button.dataset.all);
      control.dispatchEvent(new Event("input"));
    });
  }
}

// The address is #PLACE?PARAM=VALUE&..., with the params that are not as at first.

const nameOf = (control) => `${control.closest("section")?.id ?? ""}.${control.dataset.param}`;

function address() {
  const [place, query] = location.hash.slice(1).split("?");
  return { place: decodeURIComponent(place), query: new URLSearchParams(query) };
}

function writeAddress(place = address().place, words = "") {
  const query = new URLSearchParams();
  const isFirst = (control) =>
    control.matches("fieldset")
      ? boxesOf(control).every((box) => box.checked === box.hasAttribute("data-first"))
      : control.value === control.dataset.first || valueOf(control) === Number(control.dataset.first);
  const controls = every("[data-param]"), changed = new Set(controls.filter((one) => !isFirst(one)).map(nameOf));
  for (const control of controls.filter((one) => changed.delete(nameOf(one)))) {
    // Of fieldsets that form one choice the first stands for all.
    if (control.matches("fieldset")) {
      const chosen = valueOf(control);
      for (const value of chosen.length ? chosen : [""]) query.append(nameOf(control), value);
    } else query.append(nameOf(control), control.value);
  }
  if (words) query.append("filter", words);
  const text = query.toString();
  history.replaceState(null, "", `#${encodeURIComponent(place)}${text ? `?${text}` : ""}`);
}

function readAddress() {
  const { query } = address();
  for (const name of new Set(query.keys())) {
    const values = query.getAll(name);
    for (const control of every("[data-param]").filter((one) => nameOf(one) === name)) {
      if (control.matches("fieldset")) for (const box of boxesOf(control)) box.checked = values.includes(box.value);
      else control.value = values[0];
    }
  }
}

// Figures.

// As many panels in a row as fit at their least width; then they share the remaining width.
function layOut(spec, drawing) {
  const table = Object.values(contentOf(drawing.parentElement).data).find((one) => one.columns.includes(spec.facet.field));
  const chosen = valuesFor(drawing);
  const wanted = ["condition", "activation", "rate"].map((name) => [table.columns.indexOf(name), chosen[name] ?? chosen[`${name}s`]]);
  const shown = objects(table, wanted.filter(([index, value]) => index >= 0 && value !== undefined));
  const panels = new Set(shown.map((row) => row[spec.facet.field])).size || 1;
  const own = spec.resolve?.scale?.y === "independent"; // an axis for each panel
  const each = own ? GAP + AXIS : GAP;
  const room = drawing.clientWidth - (own ? 0 : AXIS);
  const fitting = Math.floor(room / (spec.spec.width + each));
  const most = Math.max(1, Math.min(fitting, panels));
  spec.columns = Math.ceil(panels / Math.ceil(panels / most)); // rows of about equal length
  spec.spec.width = Math.max(120, Math.min(560, Math.floor(room / spec.columns) - each));
  return `${spec.columns} x ${spec.spec.width}`;
}

const hasPanels = (spec) => spec.facet && !spec.facet.row && !spec.facet.column;
const specOf = (drawing) => contentOf(drawing.parentElement).spec;

// A column that repeats its values is packed as these values and their places.
const unpacked = (column) => (column.of ? column.at.map((place) => column.of[place]) : column);

// The rows of a packed table as objects; `wanted` holds columns with the values that they may have.
function objects({ columns, values }, wanted = []) {
  const whole = values.map(unpacked), rows = [];
  for (let index = 0; index < (whole[0] ?? []).length; index++) {
    if (wanted.every(([column, value]) => [value].flat().includes(whole[column][index]))) {
      rows.push(Object.fromEntries(columns.map((name, column) => [name, whole[column][index]])));
    }
  }
  return rows;
}

async function draw(drawing) {
  const { spec, data } = contentOf(drawing.parentElement);
  spec.datasets = Object.fromEntries(Object.entries(data).map(([name, table]) => [name, objects(table)]));
  const chosen = valuesFor(drawing);
  for (const param of spec.params ?? []) if (param.name in chosen) param.value = chosen[param.name];
  if (hasPanels(spec)) drawing.dataset.layout = layOut(spec, drawing);
  const options = { actions: false, ast: true, config: THEME, logLevel: ERRORS, renderer: "svg", tooltip: { disableDefaultStyle: true } };
  views.get(drawing)?.view.finalize(); // or its listeners stay after a resize
  views.set(drawing, { params: [] });
  const { view } = await window.vegaEmbed(drawing.firstElementChild, spec, options);
  view.addEventListener("click", (_, item) => item?.datum?.link && go(item.datum.link));
  views.set(drawing, { view, params: (spec.params ?? []).map((param) => param.name) });
}

// The values behind a figure: those of its first table, with the columns of the one that its ids stand for.
function valuesBehind(figure) {
  const [points, more] = Object.values(contentOf(figure).data).map((table) => objects(table));
  const known = new Map((more ?? []).map((row) => [row.id, row]));
  return points.map((row) => ({ ...known.get(row.id), ...row }));
}

function save(figure, kind) {
  let text;
  if (kind === "csv") {
    const rows = valuesBehind(figure), columns = [...new Set(rows.flatMap(Object.keys))];
    const quoted = (value) => (/[",\n]/.test(value ?? "") ? `"${String(value).replaceAll('"', '""')}"` : (value ?? ""));
    text = [columns, ...rows.map((row) => columns.map((name) => row[name]))].map((row) => row.map(quoted).join(",")).join("\n");
  } else {
    const style = getComputedStyle(document.documentElement);
    const svg = figure.querySelector("svg").cloneNode(true);
    svg.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    svg.style.background = style.getPropertyValue("--paper");
    text = new XMLSerializer().serializeToString(svg).replace(/var\((--[a-z]+)\)/g, (_, name) => style.getPropertyValue(name));
  }
  const url = URL.createObjectURL(new Blob([text], { type: kind === "csv" ? "text/csv" : "image/svg+xml" }));
  element("a", { href: url, download: `${figure.id}.${kind}` }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

function toggleValues(figure, button) {
  const open = button.getAttribute("aria-expanded") === "true";
  button.setAttribute("aria-expanded", String(!open));
  if (open) return figure.querySelector(".table").remove();
  const rows = valuesBehind(figure), columns = [...new Set(rows.flatMap(Object.keys))].filter((name) => name !== "link" && name !== "id");
  const holder = element("div", { class: "table" }, element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "values" }, element("table")));
  figure.append(holder);
  const cell = (value) => [String(value ?? ""), typeof value === "number" ? value : null, null];
  begin(holder, { columns, rows: rows.map((row) => columns.map((name) => cell(row[name]))), links: [], follows: null });
}

// Tables. A cell is [text, number to sort by or null, swatch or null].

const textOf = (cell) => cell[0];
const orderOf = (cell) => cell[1];

function tableOf({ columns, texts, orders, swatches, links, follows }) {
  const numberOf = (text) => (Number.isNaN(Number(text)) || text === "" ? null : Number(text));
  const whole = columns.map((_, column) => {
    const text = unpacked(texts[column]), swatch = swatches[column] && unpacked(swatches[column]);
    const order = orders[column] === "texts" ? text.map(numberOf) : orders[column] && unpacked(orders[column]);
    return text.map((one, index) => [one, order ? order[index] : null, swatch ? swatch[index] : null]);
  });
  const rows = (whole[0] ?? []).map((_, index) => whole.map((column) => column[index]));
  return { columns, rows, links: unpacked(links), follows };
}

function begin(holder, table) {
  // A column that a choice of one fixes would hold one value only.
  const fixed = Object.entries(table.follows ?? {}).filter(([param]) => typeof valuesFor(holder)[param] === "string").map(([, column]) => column);
  const numeric = table.columns.map((_, index) => table.rows.some((row) => orderOf(row[index]) !== null));
  const heads = table.columns.map((name, index) => {
    const button = element("button", { type: "button", ...(name.length > 16 ? { class: "long" } : {}) }, name);
    const head = element("th", { scope: "col", ...(numeric[index] ? { class: "number" } : {}) }, button);
    button.addEventListener("click", () => sortBy(holder, index));
    return head;
  });
  const shown = heads.filter((_, column) => !fixed.includes(column));
  holder.querySelector("table").append(element("thead", {}, element("tr", {}, ...shown)), element("tbody"));
  tables.set(holder, { ...table, fixed, numeric, heads, order: table.rows.map((_, index) => index), most: ROWS, words: "" });
  holder.querySelector("input[type=search]")?.addEventListener("input", (event) => filter(holder, event.target.value));
  show(holder);
}

function swatch([colour, dashes]) {
  const svg = (name, attributes) => {
    const one = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) one.setAttribute(key, value);
    return one;
  };
  const image = svg("svg", { class: "swatch", width: 26, height: 12, "aria-hidden": "true" });
  image.append(svg("line", { x1: 1, y1: 6, x2: 25, y2: 6, stroke: colour, "stroke-dasharray": dashes }));
  return image;
}

function rowOf(table, index) {
  const cells = table.rows[index].map((cell, column) => {
    const parts = cell[2] ? [swatch(cell[2]), " "] : [];
    const link = column === 0 && table.links[index];
    const text = link ? element("a", { href: hrefOf(link) }, textOf(cell)) : textOf(cell);
    return element("td", table.numeric[column] ? { class: "number" } : {}, ...parts, text);
  });
  const shown = cells.filter((_, column) => !table.fixed.includes(column));
  const row = element("tr", table.links[index] ? { class: "leads" } : {}, ...shown);
  if (table.links[index]) {
    row.addEventListener("click", (event) => {
      event.preventDefault();
      if (!window.getSelection().toString()) go(table.links[index]);
    });
  }
  return row;
}

const bare = (text) => text.replace(/\s/g, "");

function show(holder) {
  const table = tables.get(holder);
  const wanted = table.words.toLowerCase().split(/\s+/).filter(Boolean);
  const headings = table.columns.map((name) => bare(name).toLowerCase());
  const chosen = table.follows ? valuesFor(holder) : {};
  const follows = Object.entries(table.follows ?? {}).map(([param, column]) => [column, chosen[param]]);
  const hits = table.order.filter((index) => {
    const row = table.rows[index];
    const follow = ([column, value]) => [value].flat().includes(typeof value === "number" ? orderOf(row[column]) : textOf(row[column]));
    if (!follows.every(follow)) return false;
    if (!wanted.length) return true;
    const texts = row.map((cell) => textOf(cell).toLowerCase());
    const text = texts.join(" ");
    // With a heading and an equals sign before it, as in learningrate=0.01, a word is the whole cell of that column.
    return wanted.every((word) => {
      const [name, ...rest] = word.split("="), column = rest.length ? headings.indexOf(name) : -1;
      return column < 0 ? text.includes(word) : bare(texts[column]) === rest.join("=");
    });
  });
  holder.querySelector("tbody").replaceChildren(...hits.slice(0, table.most).map((index) => rowOf(table, index)));
  const all = `${table.rows.length} ${table.rows.length === 1 ? "row" : "rows"}`;
  const count = hits.length === table.rows.length ? all : `${hits.length} of ${all}`;
  const output = holder.querySelector("output");
  if (output) output.value = count;
  holder.querySelector(":scope > .more")?.remove();
  if (hits.length > table.most) {
    const button = element("button", { type: "button", class: "more" }, `Show all ${hits.length} rows`);
    button.addEventListener("click", () => {
      table.most = Infinity;
      show(holder);
    });
    holder.append(button);
  }
}

function sortBy(holder, column) {
  const table = tables.get(holder), heading = table.heads[column];
  const down = heading.getAttribute("aria-sort") === "ascending";
  table.order.sort((one, other) => {
    const [a, b] = [table.rows[one][column], table.rows[other][column]], [x, y] = [orderOf(a), orderOf(b)];
    if (x === null && y === null) return (down ? -1 : 1) * textOf(a).localeCompare(textOf(b));
    // Cells without a number stay last in both directions.
    return x === null ? 1 : y === null ? -1 : (down ? -1 : 1) * (x - y);
  });
  for (const other of table.heads) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", down ? "descending" : "ascending");
  show(holder);
}

function filter(holder, words) {
  const table = tables.get(holder), search = holder.querySelector("input[type=search]");
  table.words = words;
  table.most = ROWS;
  if (search.value !== words) search.value = words;
  show(holder);
}

// Links: a place, and search words if it is a table.

const hrefOf = (link) => `#${encodeURIComponent(link.split(" ")[0])}`;

function go(link) {
  const [place, ...words] = link.split(" ");
  writeAddress(place, words.join(" "));
  arrive();
}

// Opens what the address names: a folded part, the rows of a table that its words choose, a record.
function arrive() {
  const { place, query } = address();
  let target = place && document.getElementById(place);
  if (place && !target) target = every(".records").find((holder) => openRecord(holder, place));
  if (!target) return;
  for (let one = target; one; one = one.parentElement) if (one.matches("details")) one.open = true;
  if (query.has("filter") && tables.has(target)) filter(target, query.get("filter"));
  target.scrollIntoView();
}

function openRecord(holder, place) {
  const { fields, places, values: columns } = contentOf(holder), index = places.indexOf(place);
  if (index < 0) return false;
  const values = columns.map((column) => unpacked(column)[index]);
  const lines = fields.map((field, index) => [field, values[index]]).slice(1).filter(([, value]) => value !== "");
  const body = element("tbody", {}, ...lines.map(([field, value]) => element("tr", {}, element("th", { scope: "row" }, field), element("td", {}, value))));
  holder.firstElementChild.replaceChildren(element("h3", {}, values[0]), element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": values[0] }, element("table", {}, body)));
  return true;
}

async function start() {
  readAddress();
  every("[data-param]").forEach((control) => {
    listen(control);
    label(control);
  });
  for (const form of every("form")) form.addEventListener("submit", (event) => event.preventDefault());
  for (const holder of every(".table")) begin(holder, tableOf(contentOf(holder)));
  for (const button of every("[data-save]")) button.addEventListener("click", () => save(button.closest("figure"), button.dataset.save));
  for (const button of every("[data-values]")) button.addEventListener("click", () => toggleValues(button.closest("figure"), button));
  document.addEventListener("keydown", (event) => event.key === "Escape" && every(".pop[open]").forEach((one) => (one.open = false)));
  document.addEventListener("click", (event) => {
    const link = event.target.closest("nav a, li a[href^='#']");
    if (!link) return;
    event.preventDefault();
    go(decodeURIComponent(link.hash.slice(1)));
  });
  document.addEventListener("click", (event) => every(".pop[open]").forEach((one) => one.contains(event.target) && !event.target.closest("nav a") ? null : (one.open = false)));
  window.addEventListener("hashchange", arrive);
  arrive();
  const drawings = every(".drawing"), inView = (one) => one.getBoundingClientRect().top < 2 * innerHeight && one.checkVisibility();
  for (const drawing of drawings) if (inView(drawing)) await draw(drawing);
  const observer = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (!isIntersecting) continue;
      observer.unobserve(target);
      if (!views.has(target)) draw(target);
    }
  }, { rootMargin: "100%" });
  for (const drawing of drawings) observer.observe(drawing);
  const all = async () => {
    for (const drawing of drawings) if (!views.has(drawing)) await draw(drawing);
    document.body.dataset.whole = "true";
  };
  window.addEventListener("beforeprint", all);
  // Drawing again is slow: only where the number or width of the panels changes.
  new ResizeObserver(() => {
    for (const drawing of every(".drawing[data-layout]")) {
      if (drawing.dataset.layout !== layOut(specOf(drawing), drawing)) draw(drawing);
    }
  }).observe(document.body);
  document.body.dataset.ready = "true"; // what tests in a browser wait for
}

start();
