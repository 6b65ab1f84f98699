"use strict";
(async () => {
  const AT_ONCE = 100;
  const GLYPHS = { legal: "✓", repaired: "↻", refused: "✗", invalid: "!" };
  const FAILURES_FIRST = ["invalid", "refused", "repaired", "legal"];
  const SEARCHED = ["problem", "name", "codes", "reason", "repair", "kernel", "fields", "error"];
  const byId = (id) => document.getElementById(id);

  async function unpacked(id) {
    const bytes = Uint8Array.from(atob(byId(id).textContent), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  }

  for (const choice of document.getElementsByName("weight"))
    choice.addEventListener("change", () => { document.documentElement.dataset.weight = choice.value; });

  if (!("DecompressionStream" in window)) {
    byId("found").textContent = "This browser cannot unpack the rows; use a newer one.";
    return;
  }
  const { words, numbers, group } = await unpacked("packed-rows");
  const count = group.length;
  const text = (name, row) => words[name].values[words[name].at[row]];

  const isInvalid = (row) => text("verdict", row) === "invalid";

  // How values are written; 0 stands for "none" but among counts.
  function scaled(value, steps, digits) {
    const [size, unit] = steps.find(([least]) => value >= least) || steps[steps.length - 1];
    return `${Number((value / size).toPrecision(digits))} ${unit}`;
  }
  const time = (value) => scaled(value, [[1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]], 4);
  const amount = (value) => scaled(value, [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1, ""]], 4);
  const bytes = (value) =>
    scaled(value, [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [1024, "KiB"], [1, "bytes"]], 4);
  const WRITTEN = {
    count: (value) => String(value),
    time: (value) => (value > 0 ? time(value) : ""),
    bytes: (value) => (value > 0 ? bytes(value) : ""),
    ratio: (value) => (value > 0 ? `${value.toFixed(2)}×` : ""),
  };

  const columns = [...document.querySelectorAll("#table th")].map((head) => ({
    head, name: head.dataset.column, kind: head.dataset.kind, heading: head.textContent.trim(),
    isNumber: head.dataset.kind in WRITTEN,
  }));

  // For each row, what a column sorts it by: a number, or the place of its text among all; null where it is empty.
  const keys = {};
  function keysOf(column) {
    if (keys[column.name]) return keys[column.name];
    if (column.isNumber) {
      const values = numbers[column.name];
      return (keys[column.name] = column.kind === "count" ? values : values.map((value) => (value > 0 ? value : null)));
    }
    const { values, at } = words[column.name];
    const sorts = column.kind === "verdict" ? (value) => FAILURES_FIRST.indexOf(value) : (value) => value;
    const order = values.map((_, place) => place).sort((a, b) => (sorts(values[a]) < sorts(values[b]) ? -1 : 1));
    const rank = new Array(values.length);
    order.forEach((place, position) => { rank[place] = values[place] === "" ? null : position; });
    return (keys[column.name] = at.map((place) => rank[place]));
  }

  let sorting = { column: columns.find((column) => column.kind === "verdict"), way: 1 };
  let rows = [];
  let first = 0;

  function sort() {
    const key = keysOf(sorting.column);
    rows.sort((a, b) => {
      const x = key[a], y = key[b];
      if (x === y) return a - b;
      if (x === null || y === null) return x === null ? 1 : -1; // empty ones come last, either way
      return sorting.way * (x < y ? -1 : 1);
    });
    for (const { head } of columns) {
      const way = head === sorting.column.head ? (sorting.way > 0 ? "ascending" : "descending") : "none";
      head.setAttribute("aria-sort", way);
    }
    byId("sort").value = sorting.column.name;
    byId("order").value = String(sorting.way);
  }

  let searched;
  function wordsOf(row) {
    searched ||= new Array(count);
    return (searched[row] ||= SEARCHED.map((name) => text(name, row)).join("\n").toLowerCase());
  }

  function filter() {
    const wanted = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const tests = [...document.querySelectorAll("[data-filter]")].filter((one) => one.value).map((one) => {
      const { values, at } = words[one.dataset.filter];
      const among = one.dataset.filter === "codes" ? (value) => value.split(", ").includes(one.value)
                                                   : (value) => value === one.value;
      const fits = values.map(among);
      return (row) => fits[at[row]];
    });
    if (wanted.length) tests.push((row) => wanted.every((word) => wordsOf(row).includes(word)));
    rows = [];
    for (let row = 0; row < count; row++) if (tests.every((test) => test(row))) rows.push(row);
    first = 0;
    sort();
    show();
  }

  function made(tag, properties = {}, ...inside) {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...inside);
    return element;
  }

  function cell(column, row, opener) {
    const value = column.name === "count" && isInvalid(row) ? "" : column.isNumber ? WRITTEN[column.kind](numbers[column.name][row])
                                  : text(column.kind === "codes" && isInvalid(row) ? "error" : column.name, row);
    const said = made("span", {}, ...(SHOWN[column.kind] || ((text) => [text]))(value));
    const one = made("td", { className: `${column.isNumber ? "number" : ""} ${value === "" ? "empty" : ""}`.trim() });
    one.dataset.column = column.name;
    one.dataset.heading = column.heading;
    one.append(opener || said);
    return one;
  }

  // A text that may go on on the next line after a point, a slash or the like.
  const broken = (value) => value.split(/(?<=[./_:])/).flatMap((part, place) => (place ? [made("wbr"), part] : [part]));

  const badge = (verdict) => [made("span", { className: `swatch ${verdict}` }), `${GLYPHS[verdict] || ""} ${verdict}`];
  const SHOWN = { verdict: badge, text: broken };

  function show() {
    const body = document.querySelector("#table tbody");
    const shown = rows.slice(first, first + AT_ONCE);
    body.replaceChildren(...shown.map((row) => {
      const opener = made("button", { type: "button", className: "opener" }, String(numbers.line[row]));
      opener.setAttribute("aria-expanded", "false");
      opener.setAttribute("aria-label", `row ${numbers.line[row]}: explanation`);
      const line = made("tr", { className: "row" });
      line.append(...columns.map((column, place) => cell(column, row, place ? undefined : opener)));
      line.addEventListener("click", () => { if (!String(getSelection())) toggle(line, opener, row); });
      return line;
    }));
    const pages = Math.max(1, Math.ceil(rows.length / AT_ONCE));
    byId("found").textContent = `${rows.length} of ${count} rows`;
    byId("page").textContent = `page ${first / AT_ONCE + 1} of ${pages}`;
    byId("back").disabled = first === 0;
    byId("next").disabled = first + AT_ONCE >= rows.length;
  }

  let explanations;
  async function toggle(line, opener, row) {
    const opened = opener.getAttribute("aria-expanded") === "true";
    opener.setAttribute("aria-expanded", String(!opened));
    line.classList.toggle("open", !opened);
    if (opened) return line.nextElementSibling.remove();
    const inside = made("div", { className: "inside" });
    const more = made("tr", { className: "more" }, made("td", { colSpan: columns.length }, inside));
    line.after(more);
    inside.append(own(row));
    explanations ||= unpacked("packed-explanations");
    inside.append(...explained(await explanations, row));
  }

  // What a row says itself.
  function own(row) {
    const flops = numbers.flops[row], size = numbers.bytes[row];
    const facts = [
      ["name", text("name", row)],
      ["why invalid", text("error", row)],
      ["reasons", text("reason", row) && `${text("reason", row)} (${text("codes", row)})`],
      ["operands", text("operands", row)],
      ["repair", text("repair", row)],
      ["adds", WRITTEN.bytes(numbers.bytes_added[row])],
      ["kernel as it is", text("kernel", row)],
      ["predicted as it is", WRITTEN.time(numbers.predicted_ns[row])],
      ["predicted after repair", WRITTEN.time(numbers.repaired_ns[row])],
      ["measured", WRITTEN.time(numbers.measured_ns[row])],
      ["least by datasheet", WRITTEN.time(numbers.bound_ns[row])],
      ["operations", flops > 0 ? `${amount(flops).trim()}, ${Number((flops / size).toPrecision(3))} a byte` : ""],
      ["bytes moved at least", WRITTEN.bytes(size)],
      ["asked as", text("fields", row)],
    ];
    const list = made("dl");
    for (const [name, value] of facts) if (value) list.append(made("dt", {}, name), made("dd", {}, value));
    const part = made("div", {}, made("h3", {}, text("problem", row)));
    part.append(list);
    return part;
  }

  function explained({ pages, examples }, row) {
    if (group[row] < 0)
      return isInvalid(row) ? [] : [made("p", { className: "note" }, "This row has no explanation.")];
    const example = examples[group[row]];
    const same = example.line === numbers.line[row];
    const note = same ? [] : [made("p", { className: "note" },
      `What follows explains a problem of the same kind and reasons, row ${example.line}: ${example.problem}. ` +
      "Its numbers are its own.")];
    return [...note, ...example.operands.map(([name, page], place) => {
      // Explanations come from legalsat, which escapes them; no script runs that the page's policy does not name. Their
      // style and that of the page stay apart.
      const drawn = made("div");
      drawn.attachShadow({ mode: "open" }).innerHTML = pages[page];
      return made("details", { className: "operand", open: place === 0 }, made("summary", {}, `operand ${name}`), drawn);
    })];
  }

  function sortBy(column, way) {
    sorting = { column, way };
    first = 0;
    sort();
    show();
  }
  for (const column of columns) {
    column.head.firstElementChild.addEventListener("click", () =>
      sortBy(column, sorting.column === column ? -sorting.way : 1));
  }
  const chosen = () => columns.find((column) => column.name === byId("sort").value);
  byId("sort").addEventListener("change", () => sortBy(chosen(), sorting.way));
  byId("order").addEventListener("change", () => sortBy(chosen(), Number(byId("order").value)));

  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  const clear = () => {
    byId("search").value = "";
    for (const one of document.querySelectorAll("[data-filter]")) one.value = "";
  };
  byId("clear").addEventListener("click", () => { clear(); filter(); });
  byId("search").addEventListener("input", filter);
  for (const one of document.querySelectorAll("[data-filter]")) one.addEventListener("change", filter);
  for (const one of document.querySelectorAll("[data-show]")) {
    one.addEventListener("click", () => {
      clear();
      byId(`filter-${one.dataset.show}`).value = one.dataset.value;
      filter();
      byId("problems").scrollIntoView();
    });
  }
  function turn(by) {
    first += by * AT_ONCE;
    show();
    byId("problems").scrollIntoView();
  }
  byId("back").addEventListener("click", () => turn(-1));
  byId("next").addEventListener("click", () => turn(1));
  filter();
  document.documentElement.dataset.ready = "yes";
})();
