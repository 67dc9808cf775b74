// The attention browser: its state, requests and keys; the other files draw its parts.

const NOTED = 300; // ms without a change before the state is sent
const HINT = "Click a head to open it, Ctrl or Shift + click to add it. Click a token to pin it and predict it, double-click to edit it. " +
  "Keys: arrows for other heads · Enter: pin, then edit · Shift + arrows: move the pin · Esc: unpin, then the grid.";
const STACKED = 760; // px: below it, the open head is below the grid
const GRID_SHARE = 0.44; // of the width, at most for the grid
const SHARE_OF_TWO = 0.46; // at most for two grids next to each other
const HIGH = 0.88; // of the window, at most for bands of a grid next to the open head
const HIGH_ABOVE = 0.6; // at most for bands of a grid above it
const MOST_ALSO = 5; // heads next to the open one

/** Shows `message`, an overview, in `root`; requests missing data from the host. */
function attentionBrowser(root, host, message) {
  const browser = { root, host, grids: [], focus: [0, 0], zoom: "fit", gridZoom: 1, shownSide: "both",
    lines: { by: "top", count: 3, least: 0.1 }, overlays: new Set(), pinSide: 0, message: null };
  let given = new Map(); // maps that came with the overview
  const answers = limitedCache(64);
  const exacts = limitedCache(32);
  const neuronAnswers = limitedCache(32);
  const requests = requester(host, () => ({ view: browser.message.view, state: currentState() }));
  const page = pageOf();
  const pending = {}; // by kind, the last request without a response
  let [tools, cell, cellBar, retry, noted, sent] = [null, null, null, null, 0, ""];
  const edit = editBar(browser, (what, more) => requests.ask(what, { what, ...more }), complain);
  const predictions = predictionView(browser, (what, more) => requests.ask(what, { what, ...more }), (at, text) => edit.put(at, text));
  const found = similarView(browser, (what, more) => requests.ask(what, { what, ...more }), complain);

  const currentState = () => ({ cell: browser.state.cell, also: browser.state.also, pin: browser.state.pin,
    look: browser.state.look, score: browser.choice.score, order: browser.choice.order, over: [...browser.overlays],
    word: browser.state.word, place: browser.state.place });
  const neuronsOpen = () => browser.state.look === "query";
  const key = (...parts) => parts.flat().join(",");

  function pageOf() {
    const part = (name, traits = {}) => make(name === "title" ? "h2" : name === "note" || name === "problem" ? "p" : "div",
      { class: name, ...traits });
    const parts = { caption: part("caption"), work: part("work"), problem: part("problem", { role: "status" }), title: part("title"),
      note: part("note"), hint: part("hint"), live: part("live", { "aria-live": "polite" }), tip: part("tip", { hidden: true }) };
    root.replaceChildren(...Object.values(parts));
    parts.overview = part("overview");
    parts.opened = part("opened");
    parts.work.append(parts.overview, parts.opened);
    return parts;
  }

  /** Takes an overview: ignored if the view is the same; else the state is kept where possible. */
  function update(newer) {
    const before = browser.message;
    root.dataset.passes = newer.passes;
    if (before && ["view", "present", "offline", "step"].every((name) => before[name] === newer[name])) return;
    browser.message = newer;
    const [side] = newer.sides;
    newer.sides.forEach((one, s) => { one.hidden = newer.arrays[`hidden${s}`]?.data; });
    [answers, exacts, neuronAnswers].forEach((memory) => memory.clear());
    requests.drop();
    const goesOn = before && before.step === newer.step; // else the state is that of a lesson's step
    const start = goesOn ? browser.state : newer.state;
    const pin = goesOn ? pinMoved(start.pin, before.sides[browser.pinSide], side) : start.pin;
    const common = commonGrid(newer);
    browser.state = { cell: hasCell(common, start.cell) ? start.cell : firstHead(side, common), pin, look: start.look || "lines",
      also: (start.also || []).filter((one) => hasCell(common, one)).slice(0, MOST_ALSO),
      word: side.rows.some((item) => item.word === newer.state.word) ? newer.state.word ?? null : null,
      place: !goesOn || sameText(before.sides[0], side) ? start.place ?? null : null };
    given = givenMaps(newer);
    browser.pinSide = newer.sides.findIndex((one) => pinFits(browser.state.pin, one));
    if (browser.pinSide < 0) browser.state.pin = null;
    if (!goesOn) browser.state.place ??= pinnedPlace(side);
    if (!goesOn || !scoreOf(side, browser.choice.score)) browser.choice = firstChoice(side);
    if (!goesOn) restore(side, start);
    const edited = side.changed?.length && scoreOf(side, "change");
    if (edited && !(before && scoreOf(before.sides[0], "change"))) Object.assign(browser.choice, { score: "change", picked: true });
    if (browser.pending) browser.state.pin = pinOfWords(side, browser.pending) || browser.state.pin;
    browser.pending = null;
    sent = before ? sent : JSON.stringify(currentState());
    browser.focus = browser.state.cell || (hasCell(side, browser.focus) ? browser.focus : neighbour(side, [0, -1], [0, 1]));
    browser.colours = coloursFor(root, newer.palette);
    if (newer.sides.length < 2) browser.shownSide = "both";
    root.dataset.view = newer.view;
    LABEL.size = newer.present ? 24 : 12;
    LABEL.line = newer.present ? 26 : 13;
    root.classList.toggle("present", Boolean(newer.present));
    page.title.textContent = newer.title;
    page.caption.replaceChildren(...newer.sides.filter((one) => one.caption).map((one) => make("bdi", { text: visible(one.caption) })));
    page.note.textContent = [`Values: ${newer.value}.`, newer.note].filter(Boolean).join(" ");
    complain("");
    browser.tip(null); // it says what was there before
    build();
    refresh();
    edit.open(browser.state.word, true);
    found.forget();
  }

  /** The head that is open at first: the one that draws most dependencies, else the first. */
  function firstHead(side, common) {
    const score = scoreOf(side, "draws dependencies");
    let best = null;
    side.grid.rows.forEach((_, r) => side.grid.columns.forEach((_, c) => {
      const value = score?.values[r]?.[c] ?? -1;
      if (hasCell(common, [r, c]) && (!best || value > best.value)) best = { at: [r, c], value };
    }));
    return best?.at || null;
  }

  /** The place of the pinned word, if the model predicts it; else null. */
  function pinnedPlace(side) {
    const { pin } = browser.state;
    const word = pin && (pin.axis === "row" ? side.rows[pin.i] : side.columns[pin.j])?.word;
    return side.editable && side.predicts?.places.includes(word) ? word : null;
  }

  /** The maps that came with an overview, as responses to requests for them. */
  function givenMaps(newer) {
    const maps = new Map();
    const columns = commonGrid(newer).grid.columns.length;
    for (const one of newer.cells || []) {
      const arrays = {};
      newer.sides.forEach((_, s) => {
        const { data, shape: [, height, width] } = newer.arrays[`maps${s}`];
        const at = (one.row * columns + one.column) * height * width;
        arrays[`map${s}`] = { data: data.subarray(at, at + height * width), shape: [height, width] };
      });
      maps.set(key([one.row, one.column], "plain"), { ...one, kind: "cell", arrays });
    }
    return maps;
  }

  /** The pin on a pair of words: on their pieces with the largest weight, else on their first ones. */
  function pinOfWords(side, { word, to }) {
    const map = given.get(key(browser.state.cell || [], "plain"))?.arrays.map0;
    const weight = (i, j) => (map ? map.data[i * map.shape[1] + j] : 0);
    let best = null;
    side.rows.forEach((row, i) => row.word === word && side.columns.forEach((column, j) => {
      if (column.word === to && (!best || weight(i, j) > weight(best.i, best.j))) best = { i, j, axis: "row" };
    }));
    return best;
  }

  function build() {
    browser.grids = browser.message.sides.map((_, s) => headGrid(browser, s));
    tools = overviewTools(browser);
    browser.count = make("p", { class: "count", role: "status" });
    browser.about = make("p", { class: "note" });
    browser.table = tableOf("Heads as a table", () => headsTable(browser));
    page.overview.replaceChildren(tools.node, make("div", { class: "grids" }, ...browser.grids.map((grid) => grid.node)),
      browser.count, browser.about, browser.table.node);
    cell = cellView(browser);
    cellBar = cellTools(browser);
    page.opened.replaceChildren(cellBar.node, cell.node);
    cell.place(edit.node, found.node, predictions.node);
  }

  /** Whether both sides are of one text: then the predicted place stays. */
  const sameText = (one, other) => one.caption === other.caption;

  /** The width of the open head's side. */
  const openedWidth = () => Math.floor(page.opened.clientWidth) || browser.width();

  /** Draws the state, and requests missing data. */
  function refresh() {
    if (!browser.message) return;
    page.hint.textContent = browser.message.offline ? HINT.replace(" and predict it, double-click to edit it", "") : HINT;
    root.dataset.cell = "";
    const room = browser.width();
    if (!room) return; // not visible, for example in a closed tab
    refreshOverview(room);
    if (browser.state.cell) refreshCell();
    predictions.show();
    note();
  }

  function refreshOverview(room) {
    tools.sync();
    const shown = browser.grids.filter((_, s) => browser.shownSide === "both" || browser.shownSide === String(s));
    const counts = [];
    const { beside, stacked, wide } = spaceForGrids(room, shown.length);
    const high = window.innerHeight * (stacked ? HIGH_ABOVE : HIGH);
    page.overview.classList.toggle("beside", beside);
    browser.grids.forEach((grid) => (grid.node.hidden = !shown.includes(grid)));
    shown.forEach((grid) => {
      const order = grid.paint(wide, high);
      counts.push(order.shown === order.total && !order.flow ? `${order.total} ${order.total === 1 ? grid.word().slice(0, -1) : grid.word()}`
        : `${order.shown} of ${order.total} ${grid.word()} shown`);
    });
    const widths = shown.map((grid) => Math.min(wide, Math.max(200, grid.layout().layout.width)));
    const own = beside ? widths.reduce((sum, one) => sum + one + BETWEEN, -BETWEEN) : Math.max(...widths);
    page.work.style.gridTemplateColumns = stacked ? "minmax(0, 1fr)" : `${own}px minmax(0, 1fr)`;
    root.classList.toggle("stacked", stacked);
    const named = new Set(counts).size > 1;
    const { downWord, acrossWord } = axesOf(browser.message.sides[0].grid);
    const axes = downWord && acrossWord ? `Rows: ${downWord.replace(/s?$/, "s")}; columns: ${acrossWord.replace(/s?$/, "s")}.` : "";
    const about = scoreOf(browser.message.sides[0], browser.choice.score)?.about;
    browser.count.textContent = named ? counts.map((words, s) => `${browser.message.sides[s].name}: ${words}`).join(" · ") : counts[0];
    browser.about.textContent = `${axes}${about && shown[0].layout().score ? ` Number on each map: ${visible(browser.choice.score)}. ${visible(about)}` : ""}`;
    browser.table.sync();
    root.dataset.painted ||= performance.now();
  }

  /** Whether two grids stand next to each other, whether the open head is below, and a grid's width. */
  function spaceForGrids(room, count) {
    const half = (all) => Math.floor((all - BETWEEN) / 2);
    if (count < 2) return { beside: false, stacked: room < STACKED, wide: room < STACKED ? room : Math.floor(room * GRID_SHARE) };
    const least = Math.max(...browser.grids.map((grid) => grid.leastWidth()));
    const share = room * SHARE_OF_TWO;
    if (room >= STACKED && half(share) >= least) return { beside: true, stacked: false, wide: half(share) };
    if (half(room) >= Math.min(least, 300)) return { beside: true, stacked: true, wide: half(room) };
    return { beside: false, stacked: true, wide: room };
  }

  /** The response with a head's map in the current look; undefined if there is none yet. */
  const answerOf = (at) => {
    const kind = browser.state.look === "norms" ? "norms" : "plain";
    return given.get(key(at, kind)) || answers.get(key(at, kind));
  };

  function refreshCell() {
    const { cell: open, also, look } = browser.state;
    let { pin } = browser.state;
    cellBar.sync();
    const answer = answerOf(open);
    const others = browser.message.sides.length > 1 ? [] : also;
    if (neuronsOpen() && answer && !pin && browser.message.neurons === true) {
      pin = cell.strongestOf(answer);
      browser.state.pin = pin;
    }
    const exact = pin && exacts.get(key(open, pin.i, pin.j));
    const neuron = pin && neuronsOpen() && neuronAnswers.get(key(open, pin.i, pin.j));
    const more = others.map((at) => ({ at, answer: answerOf(at) }));
    const why = browser.message.neurons === true ? null : browser.message.neurons;
    cell.show(answer, exact, neuron || (neuronsOpen() ? (why || (pin ? "…" : "Pin a cell first.")) : null), more);
    if (answer) root.dataset.cell = key(open);
    const missing = [open, ...others].find((at) => !answerOf(at));
    if (missing) want("cell", answers, key(missing, look === "norms" ? "norms" : "plain"), { at: missing,
      norms: look === "norms" });
    const needed = pin && answer && !Object.values(answer.arrays).every(({ data }) => data instanceof Float32Array);
    if (needed && !exact && !browser.message.offline && look !== "norms") {
      want("exact", exacts, key(open, pin.i, pin.j), { i: pin.i, j: pin.j });
    }
    if (pin && neuronsOpen() && !why && !neuron && !browser.message.offline) {
      want("neurons", neuronAnswers, key(open, pin.i, pin.j), { i: pin.i, j: pin.j });
    }
  }

  /** Sends a request unless the same one is pending. */
  async function want(what, memory, name, { at = browser.state.cell, norms, ...more }) {
    if (pending[what] === name) return;
    pending[what] = name;
    const [row, column] = at;
    sent = JSON.stringify(currentState()); // every request carries the state
    const answer = await requests.ask(what, { what, row, column, ...(norms ? { norms } : {}), ...more });
    if (pending[what] === name) pending[what] = null;
    if (answer?.passes) root.dataset.passes = answer.passes;
    if (answer?.kind === what) {
      memory.set(name, answer);
      complain("");
      refresh();
    } else if (answer) {
      if (what === "neurons" && answer.text) memory.set(name, answer.text);
      failed(answer, () => refresh());
    }
  }

  function failed(answer, again) {
    const lost = answer.kind === "lost";
    retry = lost ? again : null;
    complain(lost ? "No response. Press Enter to try again." : answer.text || "The request failed.");
  }

  function complain(text) {
    page.problem.textContent = text;
    page.problem.hidden = !text;
    if (!text) retry = null;
  }

  /** Sends the state to the host after a pause, unless a request has sent it. */
  function note() {
    clearTimeout(noted);
    if (browser.message.offline) return;
    noted = setTimeout(() => {
      const now = JSON.stringify(currentState());
      if (now === sent) return;
      sent = now;
      requests.ask("state", { what: "state" });
    }, NOTED);
  }

  /** Restores score, order and overlays from the address. */
  function restore(side, { score, order, over }) {
    if (scoreOf(side, score)) Object.assign(browser.choice, { score, picked: true });
    if (["up", "down"].includes(order)) browser.choice.order = order;
    for (const name of over || []) browser.overlays.add(name);
  }

  /** The pin at the new index of its tokens: the same piece, else its word; else null. */
  function pinMoved(pin, before, now) {
    if (!pin || !before) return null;
    const moved = (items, at, others) => {
      const old = items[at];
      const same = old ? others.findIndex((one) => one.i === old.i && one.word === old.word) : -1;
      return same >= 0 || !old || old.word < 0 ? same : others.findIndex((one) => one.word === old.word);
    };
    const i = moved(before.rows, pin.i, now.rows);
    const j = moved(before.columns, pin.j, now.columns);
    return i >= 0 && j >= 0 ? { ...pin, i, j } : null;
  }

  function pinFits(pin, side) {
    return Boolean(pin) && pin.i < side.rows.length && pin.j < side.columns.length;
  }

  Object.assign(browser, { refresh,
    width: () => Math.floor(root.clientWidth),
    change(change) {
      Object.assign(browser.state, change);
      refresh();
    },
    open(to) {
      const common = commonGrid(browser.message);
      if (!hasCell(common, to) && browser.state.cell && hasCell(browser.message.sides[0], to)) {
        return complain("Only one side has this head.");
      }
      if (!hasCell(common, to)) to = neighbour(common, [to[0], -1], [0, 1]);
      if (!hasCell(common, to)) return complain("Only one side has this head.");
      browser.focus = to;
      complain("");
      browser.change({ cell: to, also: browser.state.also.filter((one) => String(one) !== String(to)) });
      browser.tip(null);
      cell.node.focus({ preventScroll: true });
      browser.say(cellName(browser.message.sides[0].grid, to));
    },
    /** Shows a head next to the open one, or no longer. */
    add(at) {
      const { cell: open, also } = browser.state;
      if (!open) return browser.open(at);
      const inside = also.some((one) => String(one) === String(at));
      if (String(at) === String(open)) {
        if (also.length) browser.change({ cell: also[0], also: also.slice(1) });
        return;
      }
      if (browser.message.sides.length > 1) return complain("Several heads are shown for one side only.");
      if (!inside && also.length >= MOST_ALSO) return complain(`At most ${MOST_ALSO + 1} heads are shown at once.`);
      complain("");
      browser.focus = at;
      browser.change({ also: inside ? also.filter((one) => String(one) !== String(at)) : [...also, at] });
      browser.say(`${cellName(browser.message.sides[0].grid, at)} ${inside ? "removed" : "added"}`);
    },
    /** The open heads, each with its colour. */
    heads() {
      const { cell: open, also } = browser.state;
      const all = browser.message.sides.length > 1 || !also.length ? [open] : [open, ...also];
      const { series = [browser.colours.scale[3]] } = browser.colours;
      return all.map((at, k) => ({ at, colour: all.length > 1 ? series[k % series.length] : browser.colours.scale[3] }));
    },
    /** Lights a row and a column of every map in the grid. */
    light(row = null, column = null) {
      browser.grids.forEach((grid) => grid.light(row, column));
    },
    /** Focuses the grid. */
    close() {
      browser.tip(null);
      complain("");
      const grid = browser.grids.find((one) => !one.node.hidden);
      grid.canvas.focus({ preventScroll: true });
      grid.reveal();
    },
    edit: (word) => edit.open(word),
    focusCell: () => cell.node.focus({ preventScroll: true }),
    findSimilar: () => found.search(),
    openedWidth,
    pin(pin, sheet) {
      browser.pinSide = Number.isInteger(sheet.key) ? sheet.key : 0;
      const word = (pin.axis === "row" ? sheet.rows[pin.i] : sheet.columns[pin.j])?.word ?? -1;
      const moves = browser.pinSide === 0 && sheet.side.editable && sheet.side.predicts?.places.includes(word);
      browser.change({ pin, ...(moves ? { place: word } : {}) });
      cell.node.focus({ preventScroll: true });
      const value = sheet.weight(pin.i, pin.j);
      browser.say(`pinned ${quoted(sheet.rows[pin.i])} → ${quoted(sheet.columns[pin.j])}: ${shownValue(sheet, { value })}`);
    },
    /** The pin, if it applies to this sheet. */
    pinOn(sheet) {
      const { pin } = browser.state;
      if (!pin || !sheet || pin.i >= sheet.height || pin.j >= sheet.width) return null;
      return inStep(browser.message) || sheet.key === browser.pinSide ? pin : null;
    },
    toggleNeurons() {
      browser.change({ look: neuronsOpen() ? "lines" : "query" });
    },
    say(text) {
      clearTimeout(browser.say.soon);
      browser.say.soon = setTimeout(() => (page.live.textContent = text), 150);
    },
    tip(event, lines = []) {
      page.tip.hidden = !event;
      if (!event) return;
      page.tip.replaceChildren(...lines.map((line) => make("div", { text: line })));
      const [x, y] = pointed(event, root);
      page.tip.style.left = `${bounded(x + 14, 0, root.clientWidth - page.tip.offsetWidth)}px`;
      const over = event.clientY + 22 + page.tip.offsetHeight > window.innerHeight;
      page.tip.style.top = `${over ? y - page.tip.offsetHeight - 10 : y + 18}px`;
    },
    async save(form) {
      const { state } = browser;
      if (form === "svg" || form === "png") {
        const picture = browser.whole ? gridDrawing() : drawing();
        download(fileName(browser.message, browser.whole ? null : state.cell, form), form === "svg" ? svgFile(picture) : await pngFile(picture));
      } else if (browser.message.offline) {
        const sheets = cell.sheets().filter((sheet) => !sheet.signed);
        download(fileName(browser.message, state.cell, "csv"), csvOf(browser, sheets));
      } else {
        complain("");
        page.hint.textContent = `Creating the ${form.toUpperCase()} file …`;
        const [row, column] = browser.whole ? [null, null] : state.cell || [null, null];
        const answer = await requests.ask("file", { what: "export", form, row, column });
        page.hint.textContent = HINT;
        if (answer?.kind === "file") download(answer.name, new Blob([answer.arrays.file.data], { type: answer.type }));
        else if (answer) failed(answer, () => browser.save(form));
      }
    },
  });

  function drawing() {
    const { state, message } = browser;
    const sheets = cell.sheets();
    const name = `${cellName(message.sides[0].grid, state.cell)}. Values: ${sheets[0]?.value || message.value}.`;
    return composed(browser, name, sheets.map((sheet) => sheetDrawn(browser, sheet, sheets.length)));
  }

  function gridDrawing() {
    const { message } = browser;
    const { downWord: row, acrossWord: column } = axesOf(message.sides[0].grid);
    const shown = browser.grids.filter((grid) => !grid.node.hidden);
    const ways = [row && `${row} (rows)`, column && `${column} (columns)`].filter(Boolean).join(", ");
    const scale = message.sides.length > 1 ? "A map has the same colour scale on both sides." : "Each map has its own colour scale.";
    return composed(browser, `Maps by ${ways || "grid"}. Values: ${message.value}. ${scale}`,
      shown.map((grid) => gridDrawn(browser, grid.layout())));
  }

  /** Keys while a head is open; in the overview the canvas handles the arrow keys. */
  function onKey(event) {
    if (/^(r|c|Escape)$/i.test(event.key)) event.stopPropagation(); // Streamlit uses these keys itself
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    const acting = typing || /^(BUTTON|SUMMARY|A)$/.test(event.target.tagName);
    const { cell: open, pin } = browser.state;
    let done = true;
    if (event.key === "Escape" && pin && open) browser.change({ pin: null });
    else if (event.key === "Escape" && browser.state.also.length) browser.change({ also: [] });
    else if (event.key === "Escape" && !root.getRootNode().activeElement?.matches("canvas.heads")) browser.close();
    else if (event.key === "Enter" && !acting && retry) {
      const again = retry;
      complain("");
      again();
    } else if (event.key === "Enter" && !acting) {
      if (root.getRootNode().activeElement?.matches("canvas.heads")) browser.open(browser.focus);
      else if (!pin) cell.strongestCell();
      else if (browser.message.sides[0].editable) edit.open(browser.message.sides[0].rows[pin.axis === "row" ? pin.i : pin.j]?.word ?? null);
    }
    else if (event.key === " " && root.getRootNode().activeElement?.matches("canvas.heads")) browser.add(browser.focus);
    else if (WAYS[event.key] && open && !typing) event.shiftKey ? movePin(WAYS[event.key])
      : browser.open(neighbour(commonGrid(browser.message), open, stepOf(browser.message.sides[0].grid, WAYS[event.key])));
    else done = false;
    if (!done) return;
    event.preventDefault();
    event.stopPropagation();
  }

  function movePin([down, across]) {
    const sheet = cell.sheets().find((one) => browser.pinOn(one));
    if (!sheet) return cell.strongestCell();
    const { pin } = browser.state;
    const [i, j] = [bounded(pin.i + down, 0, sheet.height - 1), bounded(pin.j + across, 0, sheet.width - 1)];
    if (sheet.masked(i, j)) return;
    browser.pin({ ...pin, i, j }, sheet);
    cell.reveal({ i, j });
  }

  function recolour() {
    if (!browser.message || isDark(root) === browser.colours.dark) return;
    browser.colours = coloursFor(root, browser.message.palette);
    browser.grids.forEach((grid) => grid.recolour());
    refresh();
  }

  const quiet = (event) => /^(r|c|Escape)$/i.test(event.key) && event.stopPropagation();
  root.addEventListener("keydown", onKey);
  root.addEventListener("keyup", quiet);
  document.addEventListener("visibilitychange", recolour);
  const watching = setInterval(recolour, 1000);
  let width = 0;
  const resized = perFrame(() => {
    if (browser.width() === width) return;
    width = browser.width();
    refresh();
  });
  const size = new ResizeObserver(resized);
  update(message);
  width = browser.width();
  size.observe(root);

  return {
    update,
    close() {
      clearInterval(watching);
      clearTimeout(noted);
      clearTimeout(browser.say.soon);
      size.disconnect();
      document.removeEventListener("visibilitychange", recolour);
      requests.drop();
      root.replaceChildren();
    },
  };
}
