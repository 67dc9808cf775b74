// Lists of choices with bars of their probabilities, next to each other.

/** Draws the lists; `send` receives {choice} of a chosen row. */
function bars(view, colours, send) {
  return make("section", { class: "block lists" }, ...view.lists.map((list) => make("div", { class: list.rows.some((row) => row.note || row.change) ? "list noted" : "list" },
    make("h4", {}, make("bdi", { text: visible(list.name) })),
    list.about && make("p", { class: "note", text: list.about }),
    make("ol", { "aria-label": `Predictions of ${visible(list.name)}` }, ...list.rows.map((row) => choice(view, row, send))),
    list.rest > 0.0005 ? make("p", { class: "note", text: `all other choices: ${percent(list.rest)}` }) : null)));
}

function choice(view, row, send) {
  const bar = make("span", { class: "bar" }, make("i"));
  bar.firstChild.style.setProperty("width", `${Math.max(0.5, 100 * bounded(row.p, 0, 1))}%`);
  const inside = [
    make("bdi", { class: "t", title: visible(row.t), text: visible(row.t) }), bar,
    make("span", { class: "number", text: row.p < 0.0005 ? "< 0.1 %" : percent(row.p) }),
    make("span", { class: "note", text: [row.change && change(row.change), row.note].filter(Boolean).join(" · ") }),
  ];
  const classes = ["choice", row.mark].filter(Boolean).join(" ");
  const node = view.pickable
    ? make("button", { type: "button", class: classes, title: view.about, "aria-pressed": String(row.mark === "target"),
      onclick: () => send({ choice: row.id }) }, ...inside)
    : make("div", { class: classes }, ...inside);
  return make("li", {}, node);
}

/** A change of a probability, in points. */
function change(points) {
  const size = Math.abs(100 * points);
  return size < 0.05 ? "±0" : `${points > 0 ? "▲ +" : "▼ −"}${size.toFixed(1)}`;
}
