// What the model predicts at one place of the text, next to the attention of the open head.

const probability = (share) => (share > 0 && share < 0.0005 ? "< 0.1 %" : percent(share));
const NEAR = 60; // words on each side of the chosen one, which can be chosen

/**
 * `ask(what, more)` sends a request; `put(word, text)` puts a choice into the text. A place is the
 * index of a word; the number of words is the place after the text.
 */
function predictionView(browser, ask, put) {
  const title = make("h4", { text: "Predictions" });
  const where = make("select", { "aria-label": "Predicted place", onchange: () => browser.change({ place: +where.value }) });
  const list = make("ol", { class: "choices" });
  const more = make("p", { class: "quiet" });
  const node = make("section", { class: "predictions", "aria-label": "predictions" },
    make("div", { class: "tools" }, title, where), list, more);
  const memory = limitedCache(64);
  let [pending, offered] = ["", ""];

  const side = () => browser.message.sides[0];
  const place = () => browser.state.place ?? side().predicts.place;

  /**
   * The places that can be chosen: [index, name]; of a long text, those near the chosen one. Names
   * count from 1.
   */
  function places() {
    const { rows, words, predicts: { next, places: all } } = side();
    const read = new Set(rows.map(({ word }) => word));
    const near = all.filter((one) => read.has(one) && Math.abs(one - Math.min(place(), all.length)) <= NEAR);
    const named = near.map((word) => [word, `${word + 1} ${visible(words[word])}`]);
    return next === null ? named : [...named, [next, "next word"]];
  }

  /** Whether a piece of this word is a part of its neighbour, too: `don` and `'t` of `do` and `n't`. */
  function isShared(word) {
    const { rows, words } = side();
    const own = words[word].toLowerCase();
    const read = rows.filter((row) => row.word === word).map(({ t }) => t).join("").replace(/##|▁|Ġ/g, "").toLowerCase();
    return own !== read && (own.includes(read) || read.includes(own));
  }

  function show() {
    const { predicts, editable } = side();
    node.hidden = !predicts || !editable || browser.message.offline;
    if (node.hidden) return;
    title.textContent = browser.message.sides.length > 1 ? `Predictions: ${side().name}` : "Predictions";
    const key = `${browser.message.view} ${place()}`;
    if (offered !== key) where.replaceChildren(...places().map(([value, text]) => make("option", { value, text })));
    offered = key;
    where.value = String(place());
    const known = memory.get(key);
    if (known) return draw(known);
    node.classList.add("waiting");
    if (pending !== key) request(key);
  }

  async function request(key) {
    pending = key;
    const answer = await ask("predict", { word: place() });
    if (pending !== key || !answer) return;
    pending = "";
    const known = answer.kind === "predict" ? answer : { choices: [], note: answer.text || "No response." };
    if (answer.kind !== "lost") memory.set(key, known);
    draw(known);
  }

  function draw({ title: about = "", choices, was = [], note = "" }) {
    node.classList.remove("waiting");
    const isNext = place() === side().predicts.next;
    const canPut = !isNext && !isShared(place());
    list.replaceChildren(...choices.map(([text, share], k) => row(text, share, was[k], canPut)));
    const compared = was.some((one) => one !== null && one !== undefined);
    const shared = isNext || canPut ? "" : "Its pieces are not a whole word, so a choice cannot be put into the text.";
    more.textContent = [about, shared, compared ? "The thin bar and “was”: before the edit." : "", note].filter(Boolean).join(" ");
  }

  function row(text, share, before, canPut) {
    const bar = (part, kind) => make("span", { class: `bar ${kind}`, "aria-hidden": "true" }, make("i", { style: `width:${(100 * part).toFixed(1)}%` }));
    const changed = before !== null && before !== undefined;
    const inside = [make("bdi", { text: visible(text), title: visible(text) }),
      make("span", { class: "bar-pair" }, bar(share, "now"), changed ? bar(before, "was") : null),
      make("span", { class: "number", text: probability(share) }),
      changed ? make("span", { class: "number was", text: `was ${probability(before)}` }) : null];
    return make("li", {}, canPut ? make("button", { type: "button", class: "choice", title: "Put it into the text",
      onclick: () => put(place(), text) }, ...inside) : make("div", { class: "choice" }, ...inside));
  }
  return { node, show };
}
