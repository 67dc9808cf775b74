// The heatmap of one sheet: cells as one image, fixed token labels, hover and pin.

const MOST_LABELS = 1100;

/** The sheet's cells as one image; masked cells are transparent. */
function imageOf(sheet, colours) {
  const canvas = canvasOf(sheet.width, sheet.height);
  const pen = canvas.getContext("2d");
  const image = pen.createImageData(canvas.width, canvas.height);
  const pixels = new Uint32Array(image.data.buffer);
  const colour = sheet.signed ? colours.aroundTable : colours.scaleTable;
  for (let i = 0, k = 0; i < sheet.height; i += 1) {
    for (let j = 0; j < sheet.width; j += 1, k += 1) {
      if (!sheet.masked(i, j)) pixels[k] = colour[sheet.tone(k)];
    }
  }
  pen.putImageData(image, 0, 0);
  return canvas.toDataURL();
}

/** The hatching of masked cells. */
function hatching(id, colours) {
  return draw("pattern", { id, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    draw("rect", { width: 1, height: 6, fill: colours.lines }));
}

/** The drawing between the axes; `cell` is the size of a cell in px. */
function cellsDrawn(sheet, { cell, colours, overlays }) {
  const [width, height] = [sheet.width * cell, sheet.height * cell];
  const id = freshId("hatch");
  return [
    ...(sheet.hatched ? [draw("defs", {}, hatching(id, colours)),
      draw("rect", { width, height, fill: `url(#${id})` })] : []),
    draw("image", { class: "cells", href: imageOf(sheet, colours), width, height, preserveAspectRatio: "none",
      style: "image-rendering:pixelated" }),
    draw("rect", { width, height, fill: "none", stroke: colours.lines }),
    ...outlined(overlays, cell, colours),
  ];
}

/** Labels of the items in a range, along x (rotated) or y; some are left out if space is short. */
function axisLabels(items, along, { cell, room, colours, from = 0, to = items.length, most = Infinity, marked }) {
  const step = Math.max(1, Math.ceil(LABEL.line / cell), Math.ceil(items.length / most));
  const labels = [];
  for (let k = from - (from % step); k < Math.min(to, items.length); k += step) {
    const place = Math.max((k + 0.5) * cell + 4, 10); // so that the first label is not cut off if cells are small
    if (k && k - step <= 0 && place < 10 + LABEL.line) continue;
    const item = items[k];
    labels.push(draw("text", {
      ...(along === "x" ? { transform: `translate(${place} ${room - 8}) rotate(-90)` }
        : { x: room - 8, y: place, "text-anchor": "end" }),
      fill: item.special ? colours.faint : colours.ink,
      "font-size": LABEL.size, "font-family": FONT, "font-weight": marked === k ? 700 : null,
      "font-style": item.special ? "italic" : null,
      text: fitted(item.t, room - 12),
    }));
  }
  return labels;
}

/** The space for the labels of an axis: that of the longest label, within bounds. */
function labelRoom(items, most) {
  let longest = 24;
  for (const item of items) longest = Math.max(longest, textWidth(fitted(item.t, most - 12)));
  return Math.min(most, Math.ceil(longest) + 14);
}

/**
 * Two fingers, or the wheel with Ctrl, change a size: `get()`, and `set(size)`; what is between the
 * fingers stays there. A double tap calls `reset()`, which returns whether there was a zoom.
 */
function zoomed(pane, { get, set, reset }) {
  let [start, now, tap] = [null, null, null];
  const distance = ({ touches: [one, other] }) => Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY);
  const apply = perFrame(() => {
    if (!now) return;
    set(now.size);
    const { left, top } = pane.getBoundingClientRect();
    const grown = get() / start.size;
    pane.scrollLeft = start.x * grown - (now.x - left);
    pane.scrollTop = start.y * grown - (now.y - top);
  });
  const middle = ({ touches: [one, other] }) => [(one.clientX + other.clientX) / 2, (one.clientY + other.clientY) / 2];
  pane.addEventListener("touchstart", (event) => {
    start = now = null;
    if (event.touches.length !== 2) return;
    const [x, y] = middle(event);
    const { left, top } = pane.getBoundingClientRect();
    start = { size: get(), distance: Math.max(distance(event), 1), x: x - left + pane.scrollLeft, y: y - top + pane.scrollTop };
    tap = null;
  }, { passive: true });
  pane.addEventListener("touchmove", (event) => {
    if (!start || event.touches.length !== 2) return;
    event.preventDefault(); // or the page would be zoomed
    const [x, y] = middle(event);
    now = { size: (start.size * distance(event)) / start.distance, x, y };
    apply();
  }, { passive: false });
  pane.addEventListener("touchend", (event) => {
    const [touch] = event.changedTouches;
    if (start || event.touches.length) return void (start = event.touches.length ? start : null);
    const again = tap && event.timeStamp - tap.at < 350 && Math.hypot(touch.clientX - tap.x, touch.clientY - tap.y) < 30;
    tap = again ? null : { at: event.timeStamp, x: touch.clientX, y: touch.clientY };
    if (again && reset()) event.preventDefault();
  }, { passive: false });
  pane.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    set(get() * (event.deltaY < 0 ? 1.15 : 1 / 1.15));
  }, { passive: false });
}

/** One panel's map; `events` are hover(i, j, event), leave() and click(i, j). */
function heatmap(events) {
  const inner = draw("g");
  const cursor = draw("g", { "pointer-events": "none" });
  const cells = draw("svg", { role: "img" }, inner, cursor);
  const pane = make("div", { class: "pane" }, cells);
  const above = draw("svg", { class: "above", "aria-hidden": "true" });
  const leftAxis = draw("svg", { class: "left-axis", "aria-hidden": "true" });
  const node = make("div", { class: "map" }, make("span"), above, leftAxis, pane);
  let sheet = null;
  let look = null;
  let [point, pin] = [null, null];

  function show(newSheet, newLook) {
    [sheet, look] = [newSheet, newLook];
    const [width, height] = [sheet.width * look.cell, sheet.height * look.cell];
    cells.setAttribute("width", width);
    cells.setAttribute("height", height);
    cells.setAttribute("aria-label", look.label);
    inner.replaceChildren(...cellsDrawn(sheet, look));
    node.style.gridTemplateColumns = `${look.left}px minmax(0, ${Math.ceil(width) + 1}px)`;
    node.style.gridTemplateRows = `${look.top}px auto`;
    pane.style.maxHeight = `${Math.max(look.tall, 120)}px`;
    axes();
    point = null;
    mark(null, pin);
  }

  const axes = () => {
    const { cell, left, top, colours } = look;
    const [x, y] = [pane.scrollLeft, pane.scrollTop];
    const seen = (from, size, items) => ({
      from: Math.floor(from / cell), to: Math.ceil((from + (size || 2000)) / cell), most: MOST_LABELS / look.share });
    above.setAttribute("height", top);
    above.replaceChildren(draw("g", { transform: `translate(${-x} 0)` },
      ...axisLabels(sheet.columns, "x", { cell, room: top, colours, marked: point?.[1], ...seen(x, pane.clientWidth) }),
      ...spanBars(look.overlays, "x", cell, top - 2.5, colours)));
    leftAxis.setAttribute("width", left);
    leftAxis.replaceChildren(draw("g", { transform: `translate(0 ${-y})` },
      ...axisLabels(sheet.rows, "y", { cell, room: left, colours, marked: point?.[0], ...seen(y, pane.clientHeight) }),
      ...(sheet.side.same ? spanBars(look.overlays, "y", cell, left - 2.5, colours) : [])));
  };

  /** Marks the hovered row and column, and the pinned row or column. */
  function mark(newPoint, newPin) {
    [point, pin] = [newPoint, newPin];
    const { cell, colours } = look;
    const [width, height] = [sheet.width * cell, sheet.height * cell];
    const least = Math.max(cell, 2);
    const band = (axis, k, traits) => draw("rect", axis === "row"
      ? { x: 0, y: k * cell, width, height: least, ...traits } : { x: k * cell, y: 0, width: least, height, ...traits });
    const thin = { fill: "none", stroke: colours.faint, "stroke-opacity": 0.6 };
    cursor.replaceChildren(
      ...(point ? [band("row", point[0], thin), band("column", point[1], thin)] : []),
      ...(pin ? [
        band(pin.axis, pin.axis === "row" ? pin.i : pin.j, { class: "pinned", fill: "none", stroke: colours.ink }),
        draw("rect", { class: "pin", x: pin.j * cell - 1, y: pin.i * cell - 1, width: least + 2, height: least + 2,
          fill: "none", stroke: colours.ink, "stroke-width": 2.5 }),
      ] : []),
    );
  }

  /** Scrolls the pane to the pin. */
  function reveal({ i, j }) {
    const { cell } = look;
    pane.scrollLeft = bounded(pane.scrollLeft, (j + 2) * cell - pane.clientWidth, (j - 1) * cell);
    pane.scrollTop = bounded(pane.scrollTop, (i + 2) * cell - pane.clientHeight, (i - 1) * cell);
  }

  function cellAt(event) {
    const [j, i] = pointed(event, cells).map((pixels) => Math.floor(pixels / look.cell));
    return i >= 0 && j >= 0 && i < sheet.height && j < sheet.width ? [i, j] : null;
  }

  const again = perFrame(() => sheet && axes());
  pane.addEventListener("scroll", again);
  cells.addEventListener("pointermove", (event) => {
    const at = cellAt(event);
    if (at) events.hover(sheet, at[0], at[1], event);
    again();
  });
  cells.addEventListener("pointerleave", () => (events.leave(), again()));
  cells.addEventListener("click", (event) => {
    const at = cellAt(event);
    if (at) events.click(sheet, at[0], at[1]);
  });
  cells.addEventListener("dblclick", (event) => {
    const at = cellAt(event);
    if (at) events.edit(sheet, { axis: "row", index: at[0] });
  });
  zoomed(pane, { get: () => look.cell, set: (cell) => events.zoom(cell, 14, look.fit), reset: events.unzoom });
  return { node, show, mark, reveal, axes };
}
