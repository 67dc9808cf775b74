// One open head: a panel for each side and for the difference, and the pinned cell.

const NARROW = 216; // px, minimum width of a panel next to another
const BETWEEN = 24;
const MOST_IN_FULL = 128; // tokens whose lines have a label each and scroll; more are compressed

/** The view of an open head; `show` draws a response in the browser's state. */
function cellView(browser) {
  const says = make("p", { class: "says" });
  const legend = make("div", { class: "chips", role: "list", "aria-label": "heads shown" });
  const panels = [];
  const maps = make("div", { class: "panels" });
  const pin = pinView(browser);
  const neurons = neuronView();
  const why = make("p", { class: "quiet why" });
  const slots = [make("div"), make("div"), make("div")]; // for the edit bar, similar sentences, and predictions
  const beside = make("div", { class: "companions" }, slots[2], pin.node);
  const body = make("div", { class: "body" }, maps, beside);
  const table = tableOf("Weights as a table", () => weightsTable(sheets[0]));
  const node = make("section", { class: "cell", tabindex: "-1", "aria-label": "attention of one head" },
    says, slots[0], legend, neurons.node, body, slots[1], why, table.node);
  let sheets = [];

  function show(answer, exact, neuronAnswer, more = []) {
    const { message, colours, state } = browser;
    if (answer) {
      const heads = browser.heads();
      const others = more.filter((one) => one.answer);
      sheets = sheetsOf(message, answer);
      if (heads.length > 1) {
        named(sheets[0], heads[0]);
        others.forEach((one) => {
          const [sheet] = sheetsOf(message, one.answer);
          sheets.push(named(sheet, heads.find(({ at }) => String(at) === String(one.at))));
          sheet.key = `head ${one.at}`;
        });
      }
      says.textContent = [...new Set(sheets.slice(0, message.sides.length)
        .map((sheet) => (message.sides.length > 1 && sheet.caption ? `${sheet.name}: ${sheet.caption}` : sheet.caption)))].filter(Boolean).join(" ");
      says.hidden = !says.textContent;
      why.textContent = [sheets[0]?.shared ? "The same colours mean the same values on both sides." : "",
        message.difference && !message.difference.possible ? `No difference: ${message.difference.why}` : ""].filter(Boolean).join(" ");
      why.hidden = !why.textContent;
      showLegend(heads);
      const groups = state.look !== "map" && state.look !== "norms" && heads.length > 1 ? [sheets] : sheets.map((sheet) => [sheet]);
      while (panels.length < groups.length) panels.push(panel());
      while (panels.length > groups.length) panels.pop();
      maps.replaceChildren(...panels.map((one) => one.node));
      const space = spaceFor(groups.length);
      body.classList.toggle("aside", space.aside);
      maps.style.gridTemplateColumns = `repeat(${space.across}, minmax(0, 1fr))`;
      const looks = groups.map(([sheet]) => lookOf(browser, sheet, space));
      groups.forEach((group, s) => panels[s].show(group, looks[s]));
      const wide = looks[0].width || Math.max(looks[0].left + sheets[0].width * looks[0].cell + 4, 400);
      body.style.gridTemplateColumns = space.aside ? `${Math.min(space.room, wide)}px minmax(${space.least}px, 420px)` : "";
    }
    node.classList.toggle("waiting", !answer);
    pin.show(answer ? sheets : [], exact);
    neurons.show(message, neuronAnswer, colours, browser.openedWidth() - 4);
    table.sync();
    if (answer) mark();
  }

  function named(sheet, head) {
    return Object.assign(sheet, { name: headName(sheet.side.grid, head.at), short: headName(sheet.side.grid, head.at), colour: head.colour });
  }

  /** The heads that are shown, each with its colour and a button that removes it. */
  function showLegend(heads) {
    legend.hidden = heads.length < 2;
    const { grid } = browser.message.sides[0];
    legend.replaceChildren(...(legend.hidden ? [] : heads.map(({ at, colour }) => make("span", { class: "chip", role: "listitem" },
      make("i", { style: `background:${colour}` }), make("span", { text: headName(grid, at) }),
      make("button", { type: "button", text: "×", "aria-label": `Remove ${headName(grid, at)}`, onclick: () => browser.add(at) })))));
  }

  /** The width of a panel, and whether the pinned cell is next to the only panel. */
  function spaceFor(count) {
    const all = browser.openedWidth();
    const isLines = !["map", "norms"].includes(browser.state.look);
    const aside = count === 1 && all >= (isLines ? 640 : 780);
    const least = all >= 780 ? 296 : 216;
    const free = aside ? all - least - BETWEEN : all;
    const across = [count, 2, 1].find((k) => k <= count && free >= k * (NARROW + BETWEEN)) || 1;
    return { aside, least, across, room: Math.floor((free - (across - 1) * BETWEEN) / across), count };
  }

  function panel() {
    const name = make("div", { class: "name" });
    const events = { hover, leave, click: pinned, token, edit: edited, zoom, unzoom };
    const map = heatmap(events);
    const lines = lineView({ ...events, click: pinnedToken });
    const legend = make("div");
    const facts = make("p", { class: "facts" });
    const own = make("section", { class: "panel" }, name, map.node, lines.node, legend, facts);
    let key = null;
    function showSheets(group, look) {
      const [sheet] = group;
      const isMap = browser.state.look === "map" || browser.state.look === "norms";
      name.textContent = sheets.length > 1 && group.length === 1 ? sheet.name : "";
      map.node.hidden = !isMap;
      lines.node.hidden = isMap;
      if (isMap) map.show(sheet, look);
      else lines.show(group, look);
      legend.replaceChildren(...(isMap || sheet.signed ? [legendOf(sheet, sheet.value, browser.colours)] : []));
      const drawn = drawnInWords(sheet.drawn, browser.overlays);
      facts.textContent = [group.length > 1 ? "" : sheet.facts, ...drawn].filter(Boolean).join(" · ");
      facts.title = browser.message.sides[0].scores.filter(({ name: score }) => facts.textContent.includes(score))
        .map(({ name: score, about }) => `${score}: ${about}`).join("\n");
      key = sheet;
    }
    return { node: own, show: showSheets, map, lines, sheet: () => key };
  }

  const shown = (one) => (["map", "norms"].includes(browser.state.look) ? one.map : one.lines);

  /** Marks the hovered and the pinned cell in every panel with the same rows and columns. */
  function mark(hovered = null, at = null) {
    for (const one of panels) {
      const linked = hovered && (hovered === one.sheet() || inStep(browser.message));
      shown(one).mark(linked ? at : null, browser.pinOn(one.sheet()));
    }
  }

  function hover(sheet, i, j, event) {
    mark(sheet, [i, j]);
    browser.light(i, j);
    const same = inStep(browser.message) ? sheets : [sheet];
    const values = sheet.masked(i, j) ? [`masked: ${sheet.why}`] : same.map((one) =>
      `${sheets.length > 1 ? `${one.short}: ` : ""}${shownValue(one, { value: one.weight(i, j) })}`);
    const overlays = overlaysOn(sheet.side, browser.overlays);
    const pairs = labelsByCell(sheet, overlays).get(i * sheet.width + j) || [];
    const pair = `${quoted(sheet.rows[i])} → ${quoted(sheet.columns[j])}`;
    browser.tip(event, [pair, ...values, ...pairs]);
    browser.say(`${pair}: ${values[0]}`);
  }

  function token(sheet, { axis, index }, lines, event) {
    mark(sheet, { axis, index });
    browser.light(axis === "row" ? index : null, axis === "column" ? index : null);
    const item = (axis === "row" ? sheet.rows : sheet.columns)[index];
    const spans = axis === "column" || sheet.side.same ? spanLabels(overlaysOn(sheet.side, browser.overlays), index) : [];
    const to = lines.slice(0, 5).map(([i, j, value, own = sheet]) =>
      `${own.colour ? `${own.name} ` : ""}${axis === "row" ? "→" : "←"} ${quoted(axis === "row" ? sheet.columns[j] : sheet.rows[i])}: ${shownValue(own, { value })}`);
    browser.tip(event, [quoted(item), ...to, ...spans]);
    browser.say(quoted(item));
  }

  /** A double click on a token opens the bar that edits its word. */
  function edited(sheet, { axis, index }) {
    const { word } = (axis === "row" ? sheet.rows : sheet.columns)[index];
    if (sheet.side.editable && !browser.message.offline && word >= 0) browser.edit(word);
  }

  /** Two fingers, or the wheel with Ctrl: the size of a cell or of a token. */
  function zoom(cell, unit, fit) {
    browser.zoom = cell <= fit ? "fit" : String(Math.round(100 * bounded(cell / unit, 0.1, 6)) / 100);
    browser.refresh();
  }

  /** A double tap: the size that fits; false if it is that already. */
  function unzoom() {
    if (browser.zoom === "fit") return false;
    browser.zoom = "fit";
    browser.refresh();
    return true;
  }

  function leave() {
    browser.tip(null);
    browser.light();
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

  /** In the line view, a click pins a token and its strongest partner; then a click on the other side, another partner. */
  function pinnedToken(sheet, { axis, index }) {
    const before = browser.pinOn(sheet);
    if (before && before.axis !== axis) {
      const pair = axis === "row" ? { ...before, i: index } : { ...before, j: index };
      return sheet.masked(pair.i, pair.j) ? undefined : browser.pin(pair, sheet);
    }
    const best = partners(sheet, { axis, i: index, j: index }, null)
      .reduce((most, one) => (!most || Math.abs(one.value) > Math.abs(most.value) ? one : most), null);
    if (best) browser.pin({ i: best.i, j: best.j, axis }, sheet);
  }

  function strongestIn(sheet) {
    let best = null;
    for (let i = 0; sheet && i < sheet.height; i += 1) {
      for (let j = 0; j < sheet.width; j += 1) {
        if (!sheet.masked(i, j) && (!best || sheet.weight(i, j) > sheet.weight(best.i, best.j))) best = { i, j };
      }
    }
    return best && { ...best, axis: "row" };
  }

  function strongestCell() {
    const best = strongestIn(sheets[0]);
    if (best) browser.pin(best, sheets[0]);
  }

  const strongestOf = (answer) => strongestIn(sheetsOf(browser.message, answer)[0]);
  const reveal = (at) => panels.forEach((one) => browser.pinOn(one.sheet()) && shown(one).reveal(at));
  const place = (...nodes) => nodes.forEach((one, k) => slots[k].replaceChildren(one));
  return { node, show, reveal, strongestCell, strongestOf, place, sheets: () => sheets };
}

/** How a sheet is drawn: cell size, space, colours. */
function lookOf(browser, sheet, { room, count }) {
  const { colours, state, message, zoom } = browser;
  const most = room < 420 ? 84 : 130;
  const [left, top] = [labelRoom(sheet.rows, most), labelRoom(sheet.columns, most)];
  const tall = bounded(window.innerHeight * 0.62, 280, 640);
  const words = `${cellName(sheet.side.grid, state.cell)}, ${sheet.name}: ${sheet.value}, ${sheet.height} by ` +
    `${sheet.width} tokens, maximum ${exactly(sheet.top)}`;
  const look = { left, top, tall, colours, label: words, value: sheet.value, share: count, room,
    lines: browser.lines, overlays: overlaysOn(sheet.side, browser.overlays) };
  if (state.look === "map" || state.look === "norms") {
    const fit = bounded(Math.min((room - left - 3) / sheet.width, tall / sheet.height), 0.2, 36);
    return { ...look, fit, cell: zoom === "fit" ? fit : 14 * Number(zoom) };
  }
  const tokens = Math.max(sheet.height, sheet.width);
  const fit = bounded((tall - 6) / tokens, tokens <= MOST_IN_FULL ? LABEL.line : 0.5, LABEL.size + 10);
  const width = Math.min(room, 620);
  const right = labelRoom(sheet.columns, most);
  return { ...look, fit, width, right, cell: zoom === "fit" ? fit : 18 * Number(zoom) };
}
