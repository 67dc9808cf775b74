// Lists of words in their sentences, next to each other: neighbours by layer, members of clusters.

/** Draws the lists; `send` receives {i} of a chosen sentence. */
function contexts(view, colours, send, memory) {
  const state = (memory[view.name] ||= { focus: -1 });
  const buttons = [];
  const lists = view.lists.map((list) => make("div", { class: "list" },
    make("h4", {}, make("bdi", { text: visible(list.name) })),
    list.about && make("p", { class: "note", text: list.about }),
    make("ol", { "aria-label": visible(list.name) }, ...list.rows.map((row) => sentence(view, row, send, buttons, state))),
    list.note && make("p", { class: "note", text: list.note })));
  const section = make("section", { class: "block lists sentences" }, ...lists);
  roving(section, buttons, state, 0, false);
  return section;
}

/** A sentence with its word marked; the text direction of each is its own. */
function sentence(view, row, send, buttons, state) {
  const number = row.value === null ? null : make("span", { class: "number", text: row.value.toFixed(2).replace("-", "−") },
    make("i", { class: "share" }));
  number?.lastChild.style.setProperty("width", `${100 * bounded(row.value, 0, 1)}%`);
  const text = make("bdi", { class: "text", dir: "auto" }, around(row.before), make("mark", { text: visible(row.word) }), around(row.after));
  const inside = [number, text, row.tag && make("bdi", { class: "tag", text: visible(row.tag) })];
  const traits = { class: row.is_open ? "sentence open" : "sentence", title: row.tip && visible(row.tip) };
  if (!view.pickable) return make("li", {}, make("div", traits, ...inside));
  const button = make("button", { ...traits, type: "button", tabindex: "-1", "aria-pressed": String(row.is_open),
    onclick: () => send({ i: row.id }) }, ...inside);
  button.dataset.at = buttons.length;
  button.addEventListener("focus", () => { state.focus = Number(button.dataset.at); });
  buttons.push(button);
  return make("li", {}, button);
}

/** Text around a word: it may be empty, and its spaces stay. */
function around(text) {
  return text.trim() === "" ? text : visible(text);
}
