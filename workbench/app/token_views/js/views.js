// Views below each other in one element; drawn again when their data or the theme changes.

const DRAWN = { strip, bars, grid, contexts, pieces, steps };

/** Shows views in `root`; `send` receives what is chosen, with the name of its view. */
function tokenViews(root, send) {
  let last = "";
  let message = null;
  const memory = {};

  function draw() {
    const focused = focusedIn(root);
    const colours = coloursFor(root, message.palette);
    root.dataset.id = message.id;
    root.replaceChildren(...message.views.map((view) =>
      DRAWN[view.kind](view, colours, (chosen) => send({ id: message.id, view: view.name, ...chosen }), memory)));
    if (focused) root.children[focused.block]?.querySelectorAll("button")[focused.at]?.focus();
    root.dataset.painted = String(Math.round(performance.timeOrigin + performance.now()));
  }

  const scheme = matchMedia("(prefers-color-scheme: dark)");
  const redraw = () => message && draw();
  scheme.addEventListener("change", redraw);
  return {
    update(newer) {
      const text = JSON.stringify(newer) + isDark(root);
      if (text === last) return;
      [last, message] = [text, newer];
      draw();
    },
    close: () => scheme.removeEventListener("change", redraw),
  };
}

/** The block and the number of the button that has the focus. */
function focusedIn(root) {
  const active = root.getRootNode().activeElement;
  const block = [...root.children].findIndex((one) => one.contains(active));
  if (block < 0 || active.tagName !== "BUTTON") return null;
  return { block, at: [...root.children[block].querySelectorAll("button")].indexOf(active) };
}
