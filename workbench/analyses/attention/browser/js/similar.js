// Find similar: sentences of the corpus where the open head attends between words of the same tags.

/** The list below the open head; `ask(what, more)` searches some more sentences. */
function similarView(browser, ask, complain) {
  const heading = make("h4");
  const bar = make("progress", { max: "1", value: "0" });
  const stop = buttonOf("Stop", () => (running = 0));
  const list = make("ol", { class: "similar" });
  const node = make("section", { class: "found", hidden: true, "aria-label": "similar sentences" },
    make("div", { class: "tools" }, heading, bar, stop,
      buttonOf("×", () => forget(), { "aria-label": "Close", class: "bare" })), list);
  let running = 0;

  async function search() {
    const { pin, cell } = browser.state;
    const [side] = browser.message.sides;
    const own = (running = Math.random());
    const at = { row: side.grid.layers[cell[0]], column: side.grid.heads[cell[1]], word: side.rows[pin.i].word, to: side.columns[pin.j].word };
    const hits = [];
    node.hidden = false;
    list.replaceChildren();
    node.scrollIntoView({ block: "center" });
    heading.textContent = "Searching …";
    for (let first = 0, done = false; !done && running === own;) {
      bar.hidden = stop.hidden = false;
      const answer = await ask("similar", { ...at, first });
      if (running !== own && running !== 0) return;
      if (answer?.kind !== "similar") {
        if (answer) complain(answer.text || "No response.");
        if (answer && !hits.length) forget();
        break;
      }
      hits.push(...answer.hits);
      hits.sort((one, other) => other.weight - one.weight);
      hits.splice(answer.most);
      ({ next: first, done } = answer);
      bar.value = first / answer.of;
      heading.textContent = `${headName(side.grid, cell)}, ${answer.tags.join(" → ")}: strongest of ${thousands(first)} sentences of ${answer.name}`;
      list.replaceChildren(...hits.map(shown));
      node.dataset.searched = first;
    }
    bar.hidden = stop.hidden = true;
    if (!hits.length && !node.hidden) list.replaceChildren(make("li", { class: "quiet", text: "No sentence has such words." }));
  }

  function shown({ sentence, split, words, word, to, weight }) {
    const parts = words.flatMap(([text, space], k) => [
      k === word ? make("mark", { class: "from", text: visible(text) }) : k === to ? make("mark", { class: "to", text: visible(text) })
        : make("span", { text: visible(text) }), space ? " " : ""]);
    return make("li", {}, make("button", { type: "button", class: "sentence", title: "Open this sentence",
      onclick: () => open(sentence, split, word, to) },
    make("span", { class: "number", text: exactly(weight) }), make("bdi", {}, ...parts)));
  }

  async function open(sentence, split, word, to) {
    browser.pending = { word, to };
    const answer = await ask("show", { sentence, split });
    if (answer && answer.kind !== "show") complain(answer.text || "The request failed.");
  }

  function forget() {
    running = 0;
    node.hidden = true;
    list.replaceChildren();
  }
  return { node, search, forget };
}
