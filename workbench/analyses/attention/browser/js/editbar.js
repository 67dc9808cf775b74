// Editing a word in place: the bar with its actions.

/**
 * `ask(what, more)` sends a request; `complain(text)` shows an error. `open(word)` opens the bar for
 * a word of the text; null closes it.
 */
function editBar(browser, ask, complain) {
  const name = make("span", { class: "name" });
  const box = make("input", { type: "text", "aria-label": "Replacement", maxlength: "200", autocomplete: "off" });
  const mask = buttonOf("Mask", () => send("mask"), { title: "Hide the word: the model reads its mask" });
  const swap = buttonOf("Swap with next", () => send("swap"));
  const node = make("section", { class: "edit", hidden: true, "aria-label": "edit a word" },
    make("form", { class: "tools", onsubmit: (event) => (event.preventDefault(), send("replace", box.value)) },
      name, box, make("button", { type: "submit", text: "Replace" }), mask, buttonOf("Delete", () => send("delete")), swap,
      buttonOf("×", () => close(), { "aria-label": "Close", class: "bare" })));
  let word = null;

  const side = () => browser.message.sides[0];
  const words = () => side().rows.map((item) => item.word).filter((one) => one >= 0);

  function open(index, kept = false) {
    word = index !== null && index >= 0 && side().editable && !browser.message.offline && words().includes(index) ? index : null;
    node.hidden = word === null;
    if (browser.state.word !== word) browser.change(word === null || kept || !side().predicts?.places.includes(word) ? { word } : { word, place: word });
    if (word === null) return;
    name.textContent = `Word ${word}`;
    box.value = visible(side().words[word]);
    mask.hidden = !side().mask;
    swap.hidden = !words().includes(word + 1);
    if (!kept) box.focus({ preventScroll: true }), box.select();
  }

  function close() {
    open(null);
    browser.focusCell();
  }

  async function send(how, text = "", at = word) {
    if (how === "replace" && !text.trim()) how = "delete";
    const answer = await ask("edit", { word: at, how, text });
    if (answer && answer.kind !== "edit") complain(answer.text || "The request failed.");
  }

  node.addEventListener("keydown", (event) => {
    if (event.key === "Escape") (event.preventDefault(), event.stopPropagation(), close());
  });
  return { node, open, put: (at, text) => send("replace", text, at) };
}
