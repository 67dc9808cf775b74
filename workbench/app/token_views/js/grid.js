// A grid of cells with texts or numbers: layers by positions, or layers by heads.

/** Draws the grid as a table that scrolls by itself; `send` receives {row, column} of a cell. */
function grid(view, colours, send, memory) {
  const state = (memory[view.name] ||= { focus: -1 });
  const cells = [];
  const head = make("tr", {}, make("th", { class: "corner", text: view.corner }),
    ...view.columns.map((name, c) => make("th", { scope: "col", class: [c === view.column && "selected", c === view.chosen && "chosen"].filter(Boolean).join(" "),
      "aria-current": c === view.chosen && "true" },
      make("bdi", { text: visible(name), title: visible(name) }))));
  const marked = new Set(view.marked.map(String));
  const rows = view.rows.map((name, r) => make("tr", { class: r === view.row ? "selected" : null },
    make("th", { scope: "row" }, make("bdi", { text: visible(name) })),
    ...view.columns.map((_, c) => {
      const value = view.values[r][c];
      if (value === null || value === undefined) return make("td", { class: "none" });
      const text = view.texts ? view.texts[r][c] : signed(value, view.top, view.diverging, view.percent);
      const button = make("button", { type: "button", tabindex: "-1", class: "cell" }, make("bdi", { text: visible(String(text)) }));
      button.dataset.at = r * view.columns.length + c;
      const tip = view.tips ? view.tips[r][c] : `${name}, ${view.columns[c]}: ${value.toPrecision(4)}`;
      button.setAttribute("title", visible(tip));
      button.setAttribute("aria-label", visible(` ${tip} `.includes(` ${text} `) ? tip : `${text}, ${tip}`));
      if (marked.has(`${r},${c}`)) button.classList.add("final");
      if (c === view.column) button.classList.add("selected");
      tint(button, value / (view.top || 1), colours, view.diverging);
      button.addEventListener("focus", () => { state.focus = Number(button.dataset.at); });
      if (view.pickable) button.addEventListener("click", () => send({ row: r, column: c }));
      cells.push(button);
      return make("td", {}, button);
    })));
  const table = make("table", { class: view.texts ? "grid texts" : "grid", "aria-label": view.label },
    make("thead", {}, head), make("tbody", {}, ...rows));
  walked(table, cells, state, view.columns.length, view.column ?? 0);
  const scroll = make("div", { class: "scroll" }, table);
  requestAnimationFrame(() => {
    const at = head.children[(view.column ?? 0) + 1];
    if (at && scroll.scrollWidth > scroll.clientWidth) scroll.scrollLeft = at.offsetLeft - scroll.clientWidth / 2;
  });
  return make("section", { class: "block" }, scroll,
    view.legend && legend(view, colours), view.note && make("p", { class: "note", text: view.note }));
}

/** Arrow keys move over the cells. */
function walked(table, cells, state, width, column) {
  if (!cells.length) return;
  const byPlace = new Map(cells.map((cell) => [Number(cell.dataset.at), cell]));
  (byPlace.get(state.focus >= 0 ? state.focus : column) || cells[0]).tabIndex = 0;
  table.addEventListener("keydown", (event) => {
    const cell = event.target.closest?.("button");
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: width, ArrowUp: -width }[event.key];
    if (!cell || !step) return;
    event.preventDefault();
    const at = Number(cell.dataset.at);
    const isSameRow = Math.floor((at + step) / width) === Math.floor(at / width);
    const next = Math.abs(step) === 1 && !isSameRow && width > 1 ? null : byPlace.get(at + step);
    if (!next) return;
    cell.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
}
