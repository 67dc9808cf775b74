// One open head: a panel for each side and for the difference, and the pinned cell.

const NARROW = 300; // px, minimum width of a panel next to another
const BETWEEN = 24;

/** The view of an open head; `show` draws a response in the browser's state. */
function cellView(browser) {
  const heading = make("h3");
  const panels = [];
  const maps = make("div", { class: "panels" });
  const pin = pinView(browser);
  const neurons = neuronView();
  const why = make("p", { class: "quiet why" });
  const body = make("div", { class: "body" }, maps, pin.node);
  const node = make("section", { class: "cell", tabindex: "-1", "aria-label": "attention of one head" },
    heading, body, why, neurons.node);
  let sheets = [];

  function show(answer, exact, neuronAnswer) {
    const { message, colours, state } = browser;
    heading.textContent = cellName(message.sides[0].grid, state.cell);
    heading.textContent = heading.textContent[0].toUpperCase() + heading.textContent.slice(1);
    why.hidden = !message.difference || message.difference.possible;
    why.textContent = why.hidden ? "" : `No difference: ${message.difference.why}`;
    if (answer) {
      if (answer !== show.answer) sheets = sheetsOf(message, answer);
      show.answer = answer;
      while (panels.length < sheets.length) panels.push(panel());
      while (panels.length > sheets.length) panels.pop();
      maps.replaceChildren(...panels.map((one) => one.node));
      const space = spaceFor(sheets.length);
      body.classList.toggle("aside", space.aside);
      maps.style.gridTemplateColumns = `repeat(${space.across}, minmax(0, 1fr))`;
      const looks = sheets.map((sheet) => lookOf(browser, sheet, space));
      sheets.forEach((sheet, s) => panels[s].show(sheet, looks[s]));
      const wide = looks[0].width || Math.max(looks[0].left + sheets[0].width * looks[0].cell + 4, 400);
      body.style.gridTemplateColumns = space.aside ? `${Math.min(space.room, wide)}px minmax(300px, 420px)` : "";
    }
    node.classList.toggle("waiting", !answer);
    pin.show(answer ? sheets : [], exact);
    neurons.show(message, neuronAnswer, colours, browser.width() - 4);
    if (answer) mark();
  }

  /** The width of a panel, and whether the pinned cell is next to the only panel. */
  function spaceFor(count) {
    const all = browser.width();
    const aside = count === 1 && all >= 820;
    const free = aside ? all - 320 - BETWEEN : all;
    const across = [count, 2, 1].find((k) => k <= count && free >= k * (NARROW + BETWEEN)) || 1;
    return { aside, across, room: Math.floor((free - (across - 1) * BETWEEN) / across), count };
  }

  function panel() {
    const name = make("div", { class: "name" });
    const events = { hover, leave, click: pinned, token };
    const map = heatmap(events);
    const lines = lineView({ ...events, click: pinnedToken });
    const legend = make("div");
    const facts = make("p", { class: "facts" });
    const own = make("section", { class: "panel" }, name, map.node, lines.node, legend, facts);
    let key = null;
    function showSheet(sheet, look) {
      const isMap = browser.state.look === "map";
      name.textContent = sheets.length > 1 ? sheet.name : "";
      map.node.hidden = !isMap;
      lines.node.hidden = isMap;
      (isMap ? map : lines).show(sheet, look);
      legend.replaceChildren(legendOf(sheet, sheet.side.value, browser.colours));
      const drawn = drawnInWords(sheet.drawn, browser.overlays);
      facts.textContent = [sheet.facts, ...drawn].filter(Boolean).join(" · ");
      key = sheet;
    }
    return { node: own, show: showSheet, map, lines, sheet: () => key };
  }

  const shown = (one) => (browser.state.look === "map" ? one.map : one.lines);

  /** Marks the hovered and the pinned cell in every panel with the same rows and columns. */
  function mark(hovered = null, at = null) {
    for (const one of panels) {
      const linked = hovered && (hovered === one.sheet() || inStep(browser.message));
      shown(one).mark(linked ? at : null, browser.pinOn(one.sheet()));
    }
  }

  function hover(sheet, i, j, event) {
    mark(sheet, [i, j]);
    const same = inStep(browser.message) ? sheets : [sheet];
    const values = sheet.masked(i, j) ? ["masked: a later token"] : same.map((one) =>
      `${sheets.length > 1 ? `${one.short}: ` : ""}${shownValue(one, { value: one.value(i, j) })}`);
    const overlays = overlaysOn(sheet.side, browser.overlays);
    const pairs = labelsByCell(sheet, overlays).get(i * sheet.width + j) || [];
    const pair = `${quoted(sheet.rows[i])} → ${quoted(sheet.columns[j])}`;
    browser.tip(event, [pair, ...values, ...pairs]);
    browser.say(`${pair}: ${values[0]}`);
  }

  function token(sheet, { axis, index }, lines, event) {
    mark(sheet, { axis, index });
    const item = (axis === "row" ? sheet.rows : sheet.columns)[index];
    const spans = axis === "column" || sheet.side.same ? spanLabels(overlaysOn(sheet.side, browser.overlays), index) : [];
    const to = lines.slice(0, 5).map(([i, j, value]) =>
      `${axis === "row" ? "→" : "←"} ${quoted(axis === "row" ? sheet.columns[j] : sheet.rows[i])}: ${shownValue(sheet, { value })}`);
    browser.tip(event, [quoted(item), ...to, ...spans]);
    browser.say(quoted(item));
  }

  function leave() {
    browser.tip(null);
    mark();
  }

  /** A click pins the row; a click on the pinned cell switches between its row and column. */
  function pinned(sheet, i, j) {
    if (sheet.masked(i, j)) return;
    const before = browser.pinOn(sheet);
    const again = before && before.i === i && before.j === j;
    const axis = again ? (before.axis === "row" ? "column" : "row") : before?.axis || "row";
    browser.pin({ i, j, axis }, sheet);
  }

  /** In the line view, a click pins a token and its strongest partner. */
  function pinnedToken(sheet, { axis, index }) {
    const best = partners(sheet, { axis, i: index, j: index }, null)
      .reduce((most, one) => (!most || Math.abs(one.value) > Math.abs(most.value) ? one : most), null);
    if (best) browser.pin({ i: best.i, j: best.j, axis }, sheet);
  }

  function strongestCell() {
    const [sheet] = sheets;
    let best = null;
    for (let i = 0; sheet && i < sheet.height; i += 1) {
      for (let j = 0; j < sheet.width; j += 1) {
        if (!sheet.masked(i, j) && (!best || sheet.value(i, j) > sheet.value(best.i, best.j))) best = { i, j };
      }
    }
    if (best) browser.pin({ ...best, axis: "row" }, sheet);
  }

  const reveal = (at) => panels.forEach((one) => browser.pinOn(one.sheet()) && shown(one).reveal(at));
  return { node, show, reveal, strongestCell, sheets: () => sheets, forget: () => (show.answer = null) };
}

/** How a sheet is drawn: cell size, space, colours. */
function lookOf(browser, sheet, { room, count }) {
  const { colours, state, message, zoom } = browser;
  const most = room < 420 ? 84 : 130;
  const [left, top] = [labelRoom(sheet.rows, most), labelRoom(sheet.columns, most)];
  const tall = bounded(window.innerHeight * 0.62, 280, 640);
  const words = `${cellName(sheet.side.grid, state.cell)}, ${sheet.name}: ${sheet.side.value}, ${sheet.height} by ` +
    `${sheet.width} tokens, maximum ${roughly(sheet.top, sheet.top)}`;
  const look = { left, top, tall, colours, label: words, value: sheet.side.value, share: count, room,
    lines: browser.lines, overlays: overlaysOn(sheet.side, browser.overlays) };
  if (state.look === "map") {
    const fit = bounded(Math.min((room - left - 3) / sheet.width, tall / sheet.height), 0.2, 36);
    return { ...look, cell: zoom === "fit" ? fit : 14 * Number(zoom) };
  }
  const tokens = Math.max(sheet.height, sheet.width);
  const fit = bounded((tall - 6) / tokens, 0.5, 22);
  const width = Math.min(room, 620);
  const right = labelRoom(sheet.columns, most);
  return { ...look, width, right, cell: zoom === "fit" ? fit : 18 * Number(zoom) };
}
