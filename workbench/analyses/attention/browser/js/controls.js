// Controls: each has a label, is made once, and is updated by `sync`.

/** A select. `options` are [value, label]; `get` and `set` access its value. */
function choiceOf(label, options, get, set) {
  const select = make("select", { "aria-label": label, onchange: () => set(select.value) },
    ...options.map(([value, words]) => make("option", { value, text: words })));
  return { node: make("label", { class: "field" }, make("span", { text: label }), select),
    sync: () => (select.value = get()) };
}

/** A row of buttons, one of them pressed. */
function segmentOf(label, options, get, set) {
  const buttons = options.map(([value, words]) =>
    make("button", { type: "button", text: words, onclick: () => set(value) }));
  return { node: make("span", { class: "segment", role: "group", "aria-label": label }, ...buttons),
    sync: () => options.forEach(([value], k) => buttons[k].setAttribute("aria-pressed", get() === value)) };
}

function checkOf(words, get, set, mark = null) {
  const box = make("input", { type: "checkbox", onchange: () => set(box.checked) });
  return { node: make("label", { class: "check" }, box, mark, make("span", { text: words })),
    sync: () => (box.checked = get()) };
}

/** A number input; null if it is empty. */
function numberOf(label, get, set, traits = {}) {
  const box = make("input", { type: "number", step: "any", "aria-label": label, ...traits,
    oninput: () => set(box.value === "" ? null : Number(box.value)) });
  return { node: make("label", { class: "field" }, make("span", { text: label }), box),
    sync: () => {
      const now = get();
      if ((box.value === "" ? null : Number(box.value)) !== now) box.value = now ?? "";
    } };
}

function buttonOf(words, act, traits = {}) {
  return make("button", { type: "button", text: words, onclick: act, ...traits });
}

/** A row of controls that wraps; `sync` updates all of them. */
function toolbar(label, ...parts) {
  const controls = parts.filter(Boolean);
  return { node: make("div", { class: "tools", role: "toolbar", "aria-label": label },
    ...controls.map((part) => part.node || part)), sync: () => controls.forEach((part) => part.sync?.()) };
}

/** A control that is visible only if `when()` is true. */
function shownWhen(when, control) {
  return { node: control.node, sync: () => (control.sync?.(), (control.node.hidden = !when())) };
}

/** A menu behind a button; Escape and a click elsewhere close it. */
function menuOf(label, ...parts) {
  const box = make("div", { class: "values" }, ...parts.map((part) => part.node || part));
  const menu = make("details", { class: "menu" }, make("summary", { text: label }), box);
  const close = (event) => {
    if (menu.open && !event.composedPath().includes(menu)) menu.open = false;
  };
  menu.addEventListener("toggle", () => {
    document[menu.open ? "addEventListener" : "removeEventListener"]("pointerdown", close);
    box.style.left = box.style.right = "";
    if (menu.open && box.getBoundingClientRect().right > window.innerWidth - 8) (box.style.left = "auto"), (box.style.right = "0");
    if (menu.open && box.getBoundingClientRect().left < 8) (box.style.left = "0"), (box.style.right = "auto");
  });
  menu.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !menu.open) return;
    menu.open = false;
    menu.querySelector("summary").focus();
    event.stopPropagation();
  });
  return { node: menu, sync: () => parts.forEach((part) => part.sync?.()) };
}

/** The control above the grids, if two sides are compared: which of them to show. */
function overviewTools(browser) {
  const names = browser.message.sides.map((one, s) => [String(s), one.name]);
  const several = names.length > 1;
  const tools = toolbar("sides", several ? segmentOf("Side", [...names, ["both", "both"]],
    () => browser.shownSide, (which) => ((browser.shownSide = which), browser.refresh())) : null);
  tools.node.hidden = !several;
  return tools;
}

/** The score on the maps of the grid, their order and filters. */
function scoreControls(browser) {
  const side = browser.message.sides[0];
  const { choice } = browser;
  const score = () => scoreOf(side, choice.score);
  const changed = (change) => () => (Object.assign(choice, change), browser.refresh());
  /** After a change of order, Enter opens the first head. */
  function ordered(order) {
    changed({ order })();
    browser.focus = browser.grids[0].first() || browser.focus;
    browser.grids.forEach((grid) => grid.mark());
  }
  const scores = [["", "none"], ...side.scores.map(({ name }) => [name, name])];
  const number = () => score()?.kind === "number";
  const text = () => score()?.kind === "text";
  return [
    side.scores.length ? choiceOf("Score", scores, () => choice.score, (name) =>
      changed({ score: name, picked: true, least: null, most: null, values: null, order: "grid" })()) : null,
    shownWhen(number, choiceOf("Order", [["grid", "model order"], ["down", "largest first"], ["up", "smallest first"]],
      () => choice.order, ordered)),
    shownWhen(text, choiceOf("Order", [["grid", "model order"], ["up", "by value"]],
      () => choice.order, ordered)),
    shownWhen(number, numberOf("Minimum", () => choice.least, (least) => changed({ least })())),
    shownWhen(number, numberOf("Maximum", () => choice.most, (most) => changed({ most })())),
    ...side.scores.filter(({ kind }) => kind === "text").map((one) =>
      shownWhen(() => score() === one, valuesOf(browser, one))),
  ].filter(Boolean);
}

/** A filter for the values of a text score. */
function valuesOf(browser, score) {
  const values = [...new Set(score.values.flat().filter((v) => v !== null))].sort();
  const picked = () => browser.choice.values || new Set(values);
  const checks = values.map((value) => checkOf(visible(value), () => picked().has(value), (on) => {
    const now = new Set(picked());
    on ? now.add(value) : now.delete(value);
    browser.choice.values = now.size === values.length ? null : now;
    browser.refresh();
  }));
  const menu = make("fieldset", {}, make("legend", { text: `Filter by ${score.name}` }), ...checks.map(({ node }) => node));
  return { node: menu, sync: () => checks.forEach((check) => check.sync()) };
}

const SIZES = [["fit", "fit"], ["0.25", "¼x"], ["0.5", "½x"], ["1", "1x"], ["2", "2x"], ["3", "3x"]];

/** The row above an open head: its name, the view, overlays, display and export. */
function cellTools(browser) {
  const { grid } = browser.message.sides[0];
  const { lines } = browser;
  const is = (look) => () => browser.state.look === look;
  const isLines = () => is("lines")() || is("query")();
  const at = (k) => () => String(browser.state.cell?.[k] ?? 0);
  const names = (list) => list.map((name, k) => [String(k), name]);
  const { rows, columns } = commonGrid(browser.message).grid;
  const relined = (change) => (Object.assign(lines, change), browser.refresh());
  const word = (text, otherwise) => (text || otherwise).replace(/^./, (first) => first.toUpperCase());
  const kinds = [...new Set(browser.message.sides.flatMap((side) => side.overlays.map(({ name }) => name)))];
  const heading = make("h3");
  const size = choiceOf("Size", [...SIZES, ["own", "own"]], () =>
    (SIZES.some(([value]) => value === browser.zoom) ? browser.zoom : "own"), (zoom) => ((browser.zoom = zoom), browser.refresh()));
  const looks = [["lines", "Lines"], ["map", "Map"],
    ...(browser.message.offline ? [] : [["query", "Query–key"], ["norms", "Norms"]])];
  return toolbar("head",
    { node: heading, sync: () => (heading.textContent = browser.state.cell ? headName(grid, browser.state.cell) : "") },
    segmentOf("View", looks, () => browser.state.look, (look) => browser.change({ look })),
    kinds.length ? menuOf("Overlays", ...kinds.map((name) => overlayCheck(browser, name))) : null,
    menuOf("Display", ...scoreControls(browser),
      choiceOf(word(grid.row_word, "row"), names(rows), at(0), (r) => browser.open([+r, browser.state.cell[1]])),
      choiceOf(word(grid.column_word, "column"), names(columns), at(1), (c) => browser.open([browser.state.cell[0], +c])),
      size,
      shownWhen(isLines, choiceOf("Lines", [["top", "largest per token"], ["least", "above a threshold"]],
        () => lines.by, (by) => relined({ by }))),
      shownWhen(() => isLines() && lines.by === "top", choiceOf("Lines per token", ["1", "2", "3", "5", "10"].map((k) => [k, k]),
        () => String(lines.count), (count) => relined({ count: +count }))),
      shownWhen(() => isLines() && lines.by === "least", numberOf("Threshold", () => lines.least,
        (least) => relined({ least: least ?? 0 }), { min: 0, step: 0.01 }))),
    saveTools(browser),
  );
}

function overlayCheck(browser, name) {
  const every = browser.message.sides.flatMap((side) => side.overlays.map((overlay, k) => [overlay, k]));
  const [overlay, k] = every.find(([one]) => one.name === name);
  const mark = draw("svg", { width: 18, height: 10, "aria-hidden": "true" }, draw("path", { d: "M0 5H18",
    stroke: "var(--accent)", "stroke-width": 2, "stroke-dasharray": OUTLINES[k % OUTLINES.length] }));
  const check = checkOf(name, () => browser.overlays.has(name), (on) => {
    on ? browser.overlays.add(name) : browser.overlays.delete(name);
    browser.refresh();
  }, mark);
  check.node.title = overlay.about || "";
  return check;
}

/** The open head, or all heads, as a file. */
function saveTools(browser) {
  const forms = browser.message.offline ? ["SVG", "PNG", "CSV"] : ["SVG", "PNG", "CSV", "NPZ", "HTML"];
  const group = (label, whole, known) => make("div", { class: "save", role: "group", "aria-label": label },
    make("span", { text: label }), ...known.map((form) => buttonOf(form, async () => {
      browser.whole = whole;
      await browser.save(form.toLowerCase());
    }, { "aria-label": `Save ${whole ? "all heads " : ""}as ${form}` })));
  return menuOf("Export", group("This head", false, forms),
    group("All heads", true, forms.filter((form) => !browser.message.offline || form !== "CSV")));
}
