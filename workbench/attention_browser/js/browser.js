// The attention browser: its state, requests and keys; the other files draw its parts.

const NOTED = 300; // ms without a change before the state is sent
const KEYS = "Arrow keys: move between layers and heads · Enter: open the head";
const CELL_KEYS = "Arrow keys: other layers and heads · Enter: pin a cell · Shift + arrows: move the pin · Esc: unpin, then go back";

/** Shows `message`, an overview, in `root`; requests missing data from the host. */
function attentionBrowser(root, host, message) {
  const browser = { root, host, grids: [], focus: [0, 0], zoom: "fit", shownSide: "both", neuronsOpen: false,
    lines: { by: "top", count: 3, least: 0.1 }, overlays: new Set(), pinSide: 0, message: null };
  const answers = limitedCache(32);
  const exacts = limitedCache(32);
  const neuronAnswers = limitedCache(32);
  const requests = requester(host, () => ({ view: browser.message.view, state: currentState() }));
  const page = pageOf();
  const pending = {}; // by kind, the last request without a response
  let [tools, cell, cellBar, retry, noted, sent] = [null, null, null, null, 0, ""];

  const currentState = () => ({ cell: browser.state.cell, pin: browser.state.pin, look: browser.state.look,
    score: browser.choice.score, order: browser.choice.order, over: [...browser.overlays] });
  const key = (...parts) => parts.flat().join(",");

  function pageOf() {
    const part = (name, traits = {}) => make(name === "title" ? "h2" : name === "note" || name === "problem" ? "p" : "div",
      { class: name, ...traits });
    const parts = { title: part("title"), caption: part("caption"), note: part("note"), overview: part("overview"), opened: part("opened"),
      problem: part("problem", { role: "status" }), hint: part("hint"), live: part("live", { "aria-live": "polite" }),
      tip: part("tip", { hidden: true }) };
    root.replaceChildren(...Object.values(parts));
    return parts;
  }

  /** Takes an overview: ignored if the view is the same; else the state is kept where possible. */
  function update(newer) {
    const before = browser.message;
    root.dataset.passes = newer.passes;
    if (before && before.view === newer.view) return;
    browser.message = newer;
    const [side] = newer.sides;
    [answers, exacts, neuronAnswers].forEach((memory) => memory.clear());
    requests.drop();
    const start = before ? browser.state : newer.state;
    const pin = before ? pinMoved(start.pin, before.sides[browser.pinSide], side) : start.pin;
    browser.state = { cell: hasCell(commonGrid(newer), start.cell) ? start.cell : null, pin, look: start.look || "map" };
    browser.pinSide = newer.sides.findIndex((one) => pinFits(browser.state.pin, one));
    if (browser.pinSide < 0) browser.state.pin = null;
    if (!before || !scoreOf(side, browser.choice.score)) browser.choice = firstChoice(side);
    if (!before) restore(side, start);
    sent = before ? sent : JSON.stringify(currentState());
    browser.focus = browser.state.cell || (hasCell(side, browser.focus) ? browser.focus : neighbour(side, [0, -1], [0, 1]));
    browser.colours = coloursFor(root, newer.palette);
    if (newer.sides.length < 2) browser.shownSide = "both";
    root.dataset.view = newer.view;
    page.title.textContent = newer.title;
    page.caption.replaceChildren(...newer.sides.filter((one) => one.caption).map((one) => make("bdi", { text: visible(one.caption) })));
    page.note.textContent = [`Values: ${newer.value}.`, newer.note].filter(Boolean).join(" ");
    complain("");
    build();
    refresh();
  }

  function build() {
    browser.grids = browser.message.sides.map((_, s) => headGrid(browser, s));
    tools = overviewTools(browser);
    browser.count = make("p", { class: "count", role: "status" });
    browser.about = make("p", { class: "note" });
    page.overview.replaceChildren(tools.node, browser.about, browser.count,
      make("div", { class: "grids" }, ...browser.grids.map((grid) => grid.node)));
    cell = cellView(browser);
    cellBar = cellTools(browser);
    page.opened.replaceChildren(cellBar.node, cell.node);
  }

  /** Draws the state, and requests missing data. */
  function refresh() {
    if (!browser.message) return;
    const open = browser.state.cell;
    page.overview.hidden = Boolean(open);
    page.opened.hidden = !open;
    page.hint.textContent = open ? CELL_KEYS : KEYS;
    root.dataset.cell = "";
    if (open) refreshCell();
    else refreshOverview();
    note();
  }

  function refreshOverview() {
    const room = browser.width();
    if (!room) return; // not visible, for example in a closed tab
    tools.sync();
    const shown = browser.grids.filter((_, s) => browser.shownSide === "both" || browser.shownSide === String(s));
    const across = shown.length > 1 && room >= 1000 ? 2 : 1;
    const counts = [];
    browser.grids.forEach((grid) => (grid.node.hidden = !shown.includes(grid)));
    shown.forEach((grid) => {
      const order = grid.paint(Math.floor((room - (across - 1) * 32) / across));
      counts.push(`${order.shown} of ${order.total} ${grid.word()} shown`);
    });
    const named = new Set(counts).size > 1;
    const { grid: { row_word: rowWord, column_word: columnWord } } = browser.message.sides[0];
    const axes = columnWord ? `Rows: ${rowWord.replace(/s?$/, "s")}; columns: ${columnWord}s (counted from 0).` : "";
    const about = scoreOf(browser.message.sides[0], browser.choice.score)?.about;
    browser.count.textContent = named ? counts.map((words, s) => `${browser.message.sides[s].name}: ${words}`).join(" · ") : counts[0];
    browser.about.textContent = `${axes}${about ? ` ${visible(browser.choice.score)}: ${visible(about)}` : ""}`;
    root.dataset.painted ||= performance.now();
  }

  function refreshCell() {
    const { cell: open, pin } = browser.state;
    cellBar.sync();
    const answer = answers.get(key(open));
    const exact = pin && exacts.get(key(open, pin.i, pin.j));
    const neuron = pin && browser.neuronsOpen && neuronAnswers.get(key(open, pin.i, pin.j));
    cell.show(answer, exact, neuron || (pin && browser.neuronsOpen ? "…" : null));
    if (answer) {
      root.dataset.cell = key(open);
      root.dataset.painted ||= performance.now();
    }
    if (!answer) want("cell", answers, key(open), {});
    if (pin && !exact && !browser.message.offline) want("exact", exacts, key(open, pin.i, pin.j), { i: pin.i, j: pin.j });
    if (pin && browser.neuronsOpen && !neuron) want("neurons", neuronAnswers, key(open, pin.i, pin.j), { i: pin.i, j: pin.j });
  }

  /** Sends a request unless the same one is pending. */
  async function want(what, memory, name, more) {
    if (pending[what] === name) return;
    pending[what] = name;
    const [row, column] = browser.state.cell;
    sent = JSON.stringify(currentState()); // every request carries the state
    const answer = await requests.ask(what, { what, row, column, ...more });
    if (pending[what] === name) pending[what] = null;
    if (answer?.passes) root.dataset.passes = answer.passes;
    if (answer?.kind === what) {
      memory.set(name, answer);
      complain("");
      const { cell: open, pin } = browser.state;
      if (open && name === key(open, ...("i" in more && pin ? [pin.i, pin.j] : []))) refresh();
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
    if (scoreOf(side, score)) browser.choice.score = score;
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
      if (!hasCell(common, to) && browser.state.cell) to = neighbour(common, [to[0], -1], [0, 1]);
      if (!hasCell(common, to)) return complain("Only one side has this head.");
      const first = !browser.state.cell;
      browser.focus = to;
      complain("");
      browser.change({ cell: to });
      browser.tip(null);
      if (first) cell.node.focus({ preventScroll: true });
      browser.say(cellName(browser.message.sides[0].grid, to));
    },
    close() {
      browser.tip(null);
      complain("");
      browser.change({ cell: null });
      const grid = browser.grids.find((one) => !one.node.hidden);
      grid.canvas.focus({ preventScroll: true });
      grid.reveal();
    },
    pin(pin, sheet) {
      browser.pinSide = sheet.key === "difference" ? 0 : sheet.key;
      browser.change({ pin });
      cell.node.focus({ preventScroll: true });
      const value = sheet.value(pin.i, pin.j);
      browser.say(`pinned ${quoted(sheet.rows[pin.i])} → ${quoted(sheet.columns[pin.j])}: ${shownValue(sheet, { value })}`);
    },
    /** The pin, if it applies to this sheet. */
    pinOn(sheet) {
      const { pin } = browser.state;
      if (!pin || !sheet || pin.i >= sheet.height || pin.j >= sheet.width) return null;
      return inStep(browser.message) || sheet.key === browser.pinSide ? pin : null;
    },
    toggleNeurons() {
      browser.neuronsOpen = !browser.neuronsOpen;
      refresh();
    },
    say(text) {
      clearTimeout(browser.say.soon);
      browser.say.soon = setTimeout(() => (page.live.textContent = text), 150);
    },
    tip(event, lines = []) {
      page.tip.hidden = !event;
      if (!event) return;
      page.tip.replaceChildren(...lines.map((line) => make("div", { text: line })));
      const { left, top, width } = root.getBoundingClientRect();
      const [x, y] = [event.clientX - left, event.clientY - top];
      page.tip.style.left = `${bounded(x + 14, 0, width - page.tip.offsetWidth)}px`;
      const over = event.clientY + 22 + page.tip.offsetHeight > window.innerHeight;
      page.tip.style.top = `${over ? y - page.tip.offsetHeight - 10 : y + 18}px`;
    },
    async save(form) {
      const { state } = browser;
      if (form === "svg" || form === "png") {
        if (state.cell && !answers.get(key(state.cell))) return;
        const picture = drawing();
        download(fileName(browser.message, state.cell, form), form === "svg" ? svgFile(picture) : await pngFile(picture));
      } else if (browser.message.offline) {
        if (!state.cell) return complain("Open a head to save its values.");
        const sheets = cell.sheets().filter((sheet) => !sheet.signed);
        download(fileName(browser.message, state.cell, "csv"), csvOf(browser, sheets));
      } else {
        complain("");
        page.hint.textContent = `Creating the ${form.toUpperCase()} file …`;
        const [row, column] = state.cell || [null, null];
        const answer = await requests.ask("file", { what: "export", form, row, column });
        page.hint.textContent = state.cell ? CELL_KEYS : KEYS;
        if (answer?.kind === "file") download(answer.name, new Blob([answer.arrays.file.data], { type: answer.type }));
        else if (answer) failed(answer, () => browser.save(form));
      }
    },
  });

  function drawing() {
    const { state, message } = browser;
    const legend = `Values: ${message.value}.`;
    if (state.cell) {
      const sheets = cell.sheets();
      const name = `${cellName(message.sides[0].grid, state.cell)}. ${legend}`;
      return composed(browser, name, sheets.map((sheet) => sheetDrawn(browser, sheet, sheets.length)));
    }
    const { row_word: row, column_word: column } = message.sides[0].grid;
    const shown = browser.grids.filter((grid) => !grid.node.hidden);
    const ways = [row && `${row} (rows)`, column && `${column} (columns)`].filter(Boolean).join(", ");
    return composed(browser, `Maps by ${ways || "grid"}. ${legend} Each map has its own colour scale.`,
      shown.map((grid) => gridDrawn(browser, grid.layout())));
  }

  /** Keys while a head is open; in the overview the canvas handles the arrow keys. */
  function onKey(event) {
    if (/^(r|c|Escape)$/i.test(event.key)) event.stopPropagation(); // Streamlit uses these keys itself
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = /^(INPUT|SELECT)$/.test(event.target.tagName);
    const acting = typing || /^(BUTTON|SUMMARY|A)$/.test(event.target.tagName);
    const { cell: open, pin } = browser.state;
    let done = true;
    if (event.key === "Escape" && pin && open) browser.change({ pin: null });
    else if (event.key === "Escape" && open) browser.close();
    else if (event.key === "Enter" && !acting && retry) {
      const again = retry;
      complain("");
      again();
    } else if (event.key === "Enter" && !acting) open ? !pin && cell.strongestCell() : browser.open(browser.focus);
    else if (WAYS[event.key] && open && !typing) event.shiftKey ? movePin(WAYS[event.key])
      : browser.open(neighbour(commonGrid(browser.message), open, WAYS[event.key]));
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
