// The overview: every head of a side as a thumbnail, with keyboard navigation.

const WAYS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

/** The grid of side `s`; `browser` holds the focus and the choices of both sides. */
function headGrid(browser, s) {
  const canvas = make("canvas", { tabindex: "0", role: "application", class: "heads" });
  const lit = make("canvas", { class: "lit", "aria-hidden": "true" });
  const names = make("canvas", { class: "names", "aria-hidden": "true" }); // stay where the box scrolls
  const box = make("div", { class: "scroll" }, make("div", { class: "stack" }, canvas, lit, names));
  const title = make("div", { class: "name" });
  const node = make("section", { class: "side" }, title, box);
  let atlas = null;
  let now = null; // the last drawing
  const side = () => browser.message.sides[s];

  function recolour() {
    atlas = atlasOf(side(), browser.message.arrays[`thumbs${s}`], browser.colours, sharedTops(browser.message));
  }

  function paint(room, high) {
    if (!atlas) recolour();
    const order = arranged(side(), browser.choice);
    const most = browser.message.sides.length > 1 ? LARGEST_OF_TWO : room < WIDE ? LARGEST : LARGEST_WHERE_WIDE;
    const { picked } = browser.choice;
    const layout = thumbLayout(side(), order, room, atlas, most, browser.gridZoom, picked, high);
    const score = picked || layout.wide >= LEGIBLE ? scoreOf(side(), browser.choice.score) : null;
    now = { side: side(), atlas, order, layout, score, room };
    title.textContent = browser.message.sides.length > 1 ? side().name : "";
    const { down, across, downWord, acrossWord } = axesOf(side().grid);
    canvas.setAttribute("aria-label",
      `${side().name}: ${order.shown} of ${order.total} heads; ${down.length} rows (${downWord}), ` +
        `${across.length} columns (${acrossWord}). Arrow keys: move. Enter: open. Space: show next to the open head.`);
    mark();
    light(null, null);
    return order;
  }

  function mark() {
    const focused = canvas.matches(":focus");
    paintThumbs(canvas, { ...now, focus: browser.focus, focused, colours: browser.colours,
      open: browser.state.cell ? browser.heads() : [], changed: side().changed || [] });
    keepNames();
  }

  /** Copies the names left of the rows, which stay in view where the box scrolls. */
  function keepNames() {
    const { layout, order } = now;
    names.hidden = order.flow || layout.width <= now.room;
    if (names.hidden) return;
    const width = layout.left - 4; // without the frames of heads
    const ratio = canvas.width / layout.width;
    const { pen } = sizedCanvas(names, { width, height: layout.height });
    pen.fillStyle = browser.colours.paper;
    pen.fillRect(0, 0, width, layout.height);
    pen.drawImage(canvas, 0, 0, width * ratio, layout.height * ratio, 0, 0, width, layout.height);
  }

  /** Lights a row (attending) and a column (attended) in every map: the rest is paled. */
  function light(row, column) {
    if (!now) return;
    const { layout, order } = now;
    const on = row !== null || column !== null;
    lit.hidden = !on;
    if (!on) return;
    const { pen } = sizedCanvas(lit, layout);
    const { wide, tall } = layout;
    const [rows, columns] = [side().rows.length, side().columns.length];
    for (const { r, c, x, y } of layout.places) {
      if (!order.kept([r, c])) continue;
      pen.globalAlpha = 0.72;
      pen.fillStyle = browser.colours.paper;
      pen.fillRect(x, y, wide, tall);
      pen.globalAlpha = 1;
      const bands = [];
      if (row !== null && row < rows) bands.push([x, y + (row * tall) / rows, wide, Math.max(2, tall / rows)]);
      if (column !== null && column < columns) bands.push([x + (column * wide) / columns, y, Math.max(2, wide / columns), tall]);
      for (const [left, top, width, height] of bands) {
        pen.save();
        pen.beginPath();
        pen.rect(left, top, width, height);
        pen.clip();
        pen.clearRect(left, top, width, height);
        pen.restore();
      }
      pen.strokeStyle = browser.colours.accent;
      pen.lineWidth = 1;
      for (const [left, top, width, height] of bands) pen.strokeRect(left - 0.5, top - 0.5, width + 1, height + 1);
    }
  }

  function headAt(event) {
    const [x, y] = pointed(event, canvas);
    const { places, wide, tall } = now.layout;
    const at = places.find((p) => x >= p.x && x < p.x + wide && y >= p.y && y < p.y + tall);
    return at ? [at.r, at.c] : null;
  }

  /** The next head for an arrow key, in the grid or in the order. */
  function towards(way) {
    const { order, layout } = now;
    if (!order.flow) return neighbour(side(), browser.focus, stepOf(side().grid, way));
    const at = order.heads.findIndex((head) => String(head) === String(browser.focus));
    const to = at < 0 ? 0 : at + way[1] + way[0] * layout.inLine;
    return order.heads[to] || browser.focus;
  }

  function onKey(event) {
    if (!WAYS[event.key]) return;
    browser.focus = towards(WAYS[event.key]);
    browser.grids.forEach((grid) => grid.mark());
    reveal();
    browser.say(description(browser.focus));
    event.preventDefault();
    event.stopPropagation();
  }

  /** Scrolls the box (not the page) to the focused head. */
  function reveal() {
    const at = now.layout.places.find(({ r, c }) => String([r, c]) === String(browser.focus));
    if (!at) return;
    box.scrollLeft = bounded(box.scrollLeft, at.x + now.layout.wide + 8 - box.clientWidth, at.x - now.layout.left);
    canvas.dataset.focus = `${at.r},${at.c}`;
  }

  function description(head) {
    const value = now.score?.values[head[0]]?.[head[1]];
    const score = now.score ? `, ${now.score.name} ${badge(now.score, value)}` : "";
    return `${cellName(side().grid, head)}${score}`;
  }

  function hover(event) {
    const head = headAt(event);
    canvas.style.cursor = head ? "pointer" : "";
    if (!head) return browser.tip(null);
    const top = side().tops[head[0]]?.[head[1]];
    browser.tip(event, [
      cellName(side().grid, head),
      ...(top === null || top === undefined ? [] : [`maximum ${side().value}: ${plainly(top)}`]),
      ...side().scores.map((score) => {
        const value = score.values[head[0]]?.[head[1]] ?? null;
        return `${score.name}: ${typeof value === "number" ? plainly(value) : visible(value ?? "–")}`;
      }),
    ]);
  }

  canvas.addEventListener("keydown", onKey);
  canvas.addEventListener("focus", () => now && (mark(), browser.say(description(browser.focus))));
  canvas.addEventListener("blur", () => now && mark());
  canvas.addEventListener("pointermove", hover);
  canvas.addEventListener("pointerleave", () => browser.tip(null));
  canvas.addEventListener("click", (event) => {
    const head = headAt(event);
    if (head) event.ctrlKey || event.metaKey || event.shiftKey ? browser.add(head) : browser.open(head);
  });
  const leastWidth = () => 30 + Math.min(MANY, axesOf(side().grid).across.length) * (SMALLEST + GAP);
  zoomed(box, { get: () => browser.gridZoom, set: (zoom) => ((browser.gridZoom = bounded(zoom, 1, 5)), browser.refresh()),
    reset: () => browser.gridZoom > 1 && ((browser.gridZoom = 1), browser.refresh(), true) });
  const word = () => (side().grid.column_word === "" ? "maps" : "heads");
  const first = () => (now?.order.flow ? now.order.heads[0] : null);
  return { node, canvas, paint, mark, light, recolour, reveal, first, word, leastWidth, layout: () => now };
}
