// The line view: attending tokens on the left, attended tokens on the right, lines by weight.

const MOST_LINES = 1500; // on the page, all panels together
const PAD = 4;

/** The lines to draw: {lines: [[i, j, value]], share, wanted}, strongest first. */
function strongest(sheet, { by, count, least }, most) {
  let whole = 0;
  let lines = [];
  for (let i = 0; i < sheet.height; i += 1) {
    const row = [];
    for (let j = 0; j < sheet.width; j += 1) {
      if (sheet.masked(i, j)) continue;
      const value = sheet.weight(i, j);
      if (value === 0) continue;
      whole += Math.abs(value);
      if (by === "least") {
        if (Math.abs(value) >= least) lines.push([i, j, value]);
      } else keepLargest(row, [i, j, value], count);
    }
    lines.push(...row);
  }
  const wanted = lines.length;
  lines.sort((one, other) => Math.abs(other[2]) - Math.abs(one[2]));
  lines = lines.slice(0, most);
  const drawn = lines.reduce((sum, line) => sum + Math.abs(line[2]), 0);
  return { lines, wanted, share: whole ? drawn / whole : 0 };
}

/** The share of a row or a column that its drawn lines carry. */
function shareOf(sheet, found, { axis, index }) {
  const own = axis === "row" ? 0 : 1;
  let whole = 0;
  for (let k = 0; k < (own ? sheet.height : sheet.width); k += 1) {
    const [i, j] = own ? [k, index] : [index, k];
    if (!sheet.masked(i, j)) whole += Math.abs(sheet.weight(i, j));
  }
  const drawn = found.lines.reduce((sum, line) => sum + (line[own] === index ? Math.abs(line[2]) : 0), 0);
  return whole ? drawn / whole : 0;
}

function keepLargest(row, line, count) {
  const weight = Math.abs(line[2]);
  if (row.length === count && Math.abs(row[count - 1][2]) >= weight) return;
  let at = row.length;
  while (at > 0 && Math.abs(row[at - 1][2]) < weight) at -= 1;
  row.splice(at, 0, line);
  if (row.length > count) row.pop();
}

/** "The lines carry 83 % of the attention.", and how many lines are not drawn; or for one token. */
function shareInWords(sheet, found, value, kept = null) {
  if (kept) {
    const name = quoted((kept.axis === "row" ? sheet.rows : sheet.columns)[kept.index]);
    const way = kept.axis === "row" ? "gives" : "receives";
    return `The lines of ${name} carry ${percent(shareOf(sheet, found, kept))} of the attention it ${way}.`;
  }
  const cut = found.wanted > found.lines.length
    ? ` Only the ${thousands(found.lines.length)} strongest of ${thousands(found.wanted)} lines are drawn.` : "";
  const of = sheet.signed ? "absolute difference" : value;
  return `The lines carry ${percent(found.share)} of the ${of}.${cut}`;
}

/** The drawing, with the nodes of its lines in the order of `found.lines`. */
function linesDrawn(sheet, found, { cell, width, left, right, colours, overlays, share }) {
  const y = (k) => (k + 0.5) * cell + PAD;
  const [from, to] = [left, width - right];
  const strokes = found.lines.map(([i, j, value, own = sheet]) =>
    draw("line", { x1: from, y1: y(i), x2: to, y2: y(j), "stroke-width": 2,
      stroke: own.colour || (!sheet.signed ? colours.scale[3] : colours.around[value < 0 ? 0 : 4]),
      "stroke-opacity": (0.06 + 0.94 * Math.abs(value) / (own.scale || 1)).toFixed(3) }));
  const most = MOST_LABELS / share / 2;
  const place = { cell, colours, most };
  const rows = axisLabels(sheet.rows, "y", { ...place, room: left });
  const columns = axisLabels(sheet.columns, "y", { ...place, room: right });
  columns.forEach((text) => {
    text.setAttribute("x", to + 8);
    text.setAttribute("text-anchor", "start");
  });
  const shift = { transform: `translate(0 ${PAD})` };
  const spans = [
    draw("g", shift, ...(sheet.side.same ? spanBars(overlays, "y", cell, from - 2, colours) : [])),
    draw("g", shift, ...spanBars(overlays, "y", cell, to + 2, colours)),
  ];
  const nodes = [draw("g", {}, ...strokes), ...curved(overlays, { y, left: from, right: to }, colours),
    draw("g", shift, ...rows), draw("g", shift, ...columns), ...spans];
  return { nodes, strokes, height: Math.max(sheet.height, sheet.width) * cell + 2 * PAD };
}

/** The lines of several heads in one drawing, each with its sheet as fourth part. */
function strongestOfAll(sheets, how, most) {
  if (sheets.length === 1) return strongest(sheets[0], how, most);
  const all = sheets.map((sheet) => strongest(sheet, how, Math.floor(most / sheets.length)));
  return { ...all[0], all,
    lines: all.flatMap((found, k) => found.lines.map(([i, j, value]) => [i, j, value, sheets[k]])) };
}

/** One panel's lines of one or several heads; `events` are token(sheet, token, lines, event), leave() and click(sheet, token). */
function lineView(events) {
  const inner = draw("g");
  const cursor = draw("g", { "pointer-events": "none" });
  const picture = draw("svg", { role: "img" }, cursor, inner);
  const pane = make("div", { class: "pane" }, picture);
  const words = make("p", { class: "share" });
  const node = make("div", { class: "lineview" }, pane, words);
  let [sheet, sheets, look, found, strokes, pin] = [null, [], null, null, [], null];

  function show(newSheets, newLook) {
    [sheets, look] = [newSheets, newLook];
    [sheet] = sheets;
    found = strongestOfAll(sheets, look.lines, Math.floor(MOST_LINES / look.share));
    picture.setAttribute("aria-label", look.label);
    pane.style.maxHeight = `${Math.max(look.tall, 160)}px`;
    place();
    const bar = pane.offsetWidth - pane.clientWidth; // a scrollbar would lie over the right-hand tokens
    if (bar) (look = { ...look, width: look.width - bar }), place();
    mark(null, pin);
  }

  function place() {
    const drawing = linesDrawn(sheet, found, look);
    strokes = drawing.strokes;
    inner.replaceChildren(...drawing.nodes);
    picture.setAttribute("width", look.width);
    picture.setAttribute("height", drawing.height);
  }

  /** Shows only the lines of the hovered token, else of the pinned one, and colours its partners. */
  function mark(token, newPin) {
    pin = newPin;
    const kept = token || (pin && { axis: pin.axis, index: pin.axis === "row" ? pin.i : pin.j });
    words.textContent = sheets.length > 1 ? sheets.map((one, k) =>
      `${one.name}: ${shareInWords(one, found.all[k], look.value, kept)}`).join(" ") : shareInWords(sheet, found, look.value, kept);
    strokes.forEach((stroke, k) => {
      const [i, j] = found.lines[k];
      const on = !kept || (kept.axis === "row" ? i : j) === kept.index;
      stroke.setAttribute("visibility", on ? "visible" : "hidden");
    });
    cursor.replaceChildren(...(kept ? [box(kept.axis, kept.index, look.colours.accent, 0.22), ...partnersOf(kept)] : []));
  }

  /** The background of a token; `part` of `parts` if several heads colour it. */
  function box(axis, index, fill, opacity, part = 0, parts = 1) {
    const [left, room] = axis === "row" ? [0, look.left - 3] : [look.width - look.right + 3, look.right - 3];
    return draw("rect", { x: left + (part * room) / parts, y: index * look.cell + PAD, width: room / parts,
      height: Math.max(look.cell, 3), rx: 3, fill, "fill-opacity": Number(opacity).toFixed(3) });
  }

  function partnersOf(kept) {
    const other = kept.axis === "row" ? "column" : "row";
    return found.lines.filter((line) => line[kept.axis === "row" ? 0 : 1] === kept.index).slice(0, 200)
      .map(([i, j, value, own = sheet]) => box(other, kept.axis === "row" ? j : i,
        own.colour || (sheet.signed ? look.colours.around[value < 0 ? 0 : 4] : look.colours.scale[2]),
        0.7 * Math.abs(value) / (own.scale || 1), sheets.indexOf(own), sheets.length));
  }

  function tokenAt(event) {
    const [x, y] = pointed(event, picture);
    const axis = x < look.width / 2 ? "row" : "column";
    const index = Math.floor((y - PAD) / look.cell);
    return index >= 0 && index < (axis === "row" ? sheet.height : sheet.width) ? { axis, index } : null;
  }

  /** The lines drawn from or to a token, the strongest first. */
  const linesOf = ({ axis, index }) => found.lines.filter((line) => line[axis === "row" ? 0 : 1] === index)
    .sort((one, other) => Math.abs(other[2]) - Math.abs(one[2]));
  const act = (how) => (event) => {
    const token = tokenAt(event);
    if (token) how(token, event);
  };

  picture.addEventListener("pointermove", act((token, event) => events.token(sheet, token, linesOf(token), event)));
  picture.addEventListener("pointerleave", events.leave);
  picture.addEventListener("click", act((token) => events.click(sheet, token)));
  picture.addEventListener("dblclick", act((token) => events.edit(sheet, token)));
  zoomed(pane, { get: () => look.cell, set: (cell) => events.zoom(cell, 18, look.fit), reset: events.unzoom });
  return { node, show, mark, reveal: () => {} };
}
