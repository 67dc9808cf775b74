// The steps of tokenizers: arrow keys and buttons go back and forward.

/** Draws a list of steps for each tokenizer; at first all steps are done. */
function steps(view, colours, send, memory) {
  const state = (memory[view.name] ||= { at: {} });
  return make("section", { class: "block lists steps" }, ...view.lists.map((list) => walk(list, colours, state.at)));
}

function walk(list, colours, reached) {
  const key = `${list.name}|${list.about}|${list.rows.length}`;
  const last = list.rows.length - 1;
  const rows = list.rows.map((row) => make("li", {},
    make("div", { class: "boxes" }, ...row.boxes.map((each) => box(each, colours)), row.rest && make("bdi", { class: "rest", text: visible(row.rest) })),
    row.about && make("p", { class: "note", text: visible(row.about) })));
  const scroll = make("ol", { class: "scroll" }, ...rows);
  const count = make("span", { class: "note", "aria-live": "polite" });
  const [back, forward] = [["◀", "Back", -1], ["▶", "Forward", 1]].map(([text, name, step]) =>
    make("button", { type: "button", text, title: `${name} (arrow keys; Home and End)`, "aria-label": `${name}: ${list.name}`, onclick: () => go(now() + step) }));
  const block = make("div", { class: list.ordered ? "list ordered" : "list", role: "group", tabindex: "0", "aria-label": `Steps of ${visible(list.name)}` },
    make("h4", {}, make("bdi", { text: visible(list.name) })),
    list.about && make("p", { class: "note", text: visible(list.about) }),
    make("div", { class: "tools" }, make("span", { class: "segment" }, back, forward), count), scroll);
  const now = () => Math.min(reached[key] ?? (list.ordered ? last : 0), last);

  function go(step) {
    reached[key] = bounded(step, 0, last);
    show();
  }

  function show() {
    rows.forEach((row, at) => {
      row.classList.toggle("now", at === now());
      row.classList.toggle("later", list.ordered && at > now());
    });
    count.textContent = list.ordered ? `step ${now() + 1} of ${last + 1}` : `candidate ${now() + 1} of ${last + 1}`;
    const row = rows[now()];
    if (row && scroll.scrollHeight > scroll.clientHeight) {
      scroll.scrollTop = row.offsetTop - scroll.offsetTop - scroll.clientHeight / 2;
    }
  }

  block.addEventListener("keydown", (event) => {
    const step = { ArrowRight: now() + 1, ArrowDown: now() + 1, ArrowLeft: now() - 1, ArrowUp: now() - 1, Home: 0, End: last }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    go(step);
  });
  show();
  requestAnimationFrame(show); // once its height is known
  return block;
}
