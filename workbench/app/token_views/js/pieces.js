// Pieces of words as boxes: a row for each word, a column for each tokenizer.

const PARTS = [0, 2, 3, 5]; // colours of the first, second … piece of a word; then they repeat

/** Draws the table; `send` receives {i} of a chosen word. */
function pieces(view, colours, send, memory) {
  const state = (memory[view.name] ||= { focus: -1 });
  const buttons = [];
  const head = make("tr", {}, make("th", { class: "corner", text: "word" }),
    ...view.columns.map((name, c) => make("th", { scope: "col" }, make("bdi", { text: visible(name), title: visible(name) }),
      view.heads[c] && make("span", { class: "note", text: view.heads[c] }))));
  const body = view.rows.map((name, r) => {
    const word = view.words[r];
    const button = view.pickable && word !== null
      ? make("button", { type: "button", class: "token", tabindex: "-1", title: view.about, "aria-pressed": String(r === view.row), onclick: () => send({ i: word }) })
      : make("span", { class: word === null ? "note" : "token" });
    button.append(make("bdi", { text: visible(name) }));
    if (button.tagName === "BUTTON") {
      button.dataset.at = r;
      button.addEventListener("focus", () => { state.focus = r; });
      buttons.push(button);
    }
    if (r === view.row) button.classList.add("selected");
    return make("tr", { class: r === view.row ? "selected" : null }, make("th", { scope: "row" }, button),
      ...view.cells[r].map((cell, c) => make("td", { "data-column": visible(view.columns[c]), class: cell.length ? null : "none" }, make("div", {}, ...cell.map((each) => box(each, colours))))));
  });
  const foot = view.foot.length ? [make("tr", { class: "foot" }, make("th", { scope: "row", class: "note", text: "pieces" }),
    ...view.foot.map((text, c) => make("td", { class: "note", "data-column": visible(view.columns[c]) }, make("div", { text }))))] : [];
  const table = make("table", { class: "pieces", "aria-label": view.label },
    make("thead", {}, head), make("tbody", {}, ...body, ...foot));
  roving(table, buttons, state, view.row ?? -1, false);
  return make("section", { class: "block" }, make("div", { class: "scroll" }, table),
    view.note && make("p", { class: "note", text: view.note }));
}

/** One piece; its colour is its place in the word. */
function box(piece, colours) {
  const node = make("span", { class: ["box", piece.mark].filter(Boolean).join(" ") }, make("bdi", { text: visible(piece.t) }));
  if (piece.mark !== "special" && piece.mark !== "unknown") {
    node.style.setProperty("--part", colours.series[PARTS[piece.part % PARTS.length]]);
  }
  const tip = [piece.tip, piece.id === null ? "" : `id ${thousands(piece.id)}`].filter(Boolean).join(", ");
  if (tip) node.setAttribute("title", visible(tip));
  return node;
}
