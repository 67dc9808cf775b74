// Saving: the current view as SVG, PNG or CSV; files that Python makes are downloaded.

const MARGIN = 20;

function download(name, blob) {
  const link = make("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

function svgText(svg) {
  return `<?xml version="1.0" encoding="UTF-8"?>\n${new XMLSerializer().serializeToString(svg)}`;
}

function svgFile(svg) {
  return new Blob([svgText(svg)], { type: "image/svg+xml" });
}

/** The drawing as PNG, at twice its size. */
async function pngFile(svg) {
  const image = new Image();
  const address = URL.createObjectURL(svgFile(svg));
  image.src = address;
  await image.decode();
  const [width, height] = ["width", "height"].map((side) => Number(svg.getAttribute(side)));
  const scale = Math.min(2, Math.sqrt(6e7 / (width * height)));
  const canvas = canvasOf(Math.round(width * scale), Math.round(height * scale));
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(address);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

/** One drawing: title, subtitle and note above the parts; parts are {width, height, nodes}. */
function composed(browser, subtitle, parts) {
  const { colours, message } = browser;
  const width = Math.max(420, parts.reduce((sum, part) => sum + part.width + MARGIN, MARGIN));
  const heading = [
    { words: message.title, size: 15, weight: 600, fill: colours.ink },
    { words: subtitle, size: 12, fill: colours.ink },
    { words: message.note, size: 12, fill: colours.faint },
  ].flatMap((part) => wrapped(part.words, width - 2 * MARGIN, part.size).map((words) => ({ ...part, words })));
  let y = MARGIN;
  const texts = heading.map(({ words, size, weight, fill }) => {
    y += size + 6;
    return draw("text", { x: MARGIN, y: y - 4, "font-size": size, "font-weight": weight, "font-family": FONT, fill, text: words });
  });
  y += 14;
  let x = MARGIN;
  const placed = parts.map((part) => {
    const group = draw("g", { transform: `translate(${x} ${y})` }, ...part.nodes);
    x += part.width + MARGIN;
    return group;
  });
  const height = y + Math.max(...parts.map((part) => part.height)) + MARGIN;
  return draw("svg", { xmlns: SVG, width, height, viewBox: `0 0 ${width} ${height}` },
    draw("title", { text: message.title }), draw("rect", { width, height, fill: colours.paper }), ...texts, ...placed);
}

function wrapped(words, room, size) {
  const lines = [];
  for (const word of visible(words || "").split(" ")) {
    const longer = lines.length ? `${lines[lines.length - 1]} ${word}` : word;
    if (lines.length && textWidth(longer, size) <= room) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines.filter(Boolean);
}

/** A sheet with its labels, legend and facts, as currently displayed. */
function sheetDrawn(browser, sheet, count) {
  const look = lookOf(browser, sheet, { room: 560, count });
  const { colours, left, top } = look;
  const isMap = ["map", "norms"].includes(browser.state.look);
  const found = isMap ? null : strongest(sheet, look.lines, Math.floor(MOST_LINES / count));
  const cell = bounded(look.cell, isMap ? Math.min(14, 900 / Math.max(sheet.width, sheet.height)) : 2, 4000 / sheet.width);
  const most = MOST_LABELS / count / 2;
  const text = (y, words, fill) => draw("text", { y, "font-size": 12, "font-family": FONT, fill, text: words });
  const lines = isMap ? null : linesDrawn(sheet, found, { ...look, cell });
  const [width, height] = isMap ? [left + sheet.width * cell, top + sheet.height * cell] : [look.width, lines.height];
  const nodes = isMap ? [
    draw("g", { transform: `translate(${left} 0)` }, ...axisLabels(sheet.columns, "x", { cell, room: top, colours, most }),
      ...spanBars(look.overlays, "x", cell, top - 2.5, colours)),
    draw("g", { transform: `translate(0 ${top})` }, ...axisLabels(sheet.rows, "y", { cell, room: left, colours, most }),
      ...(sheet.side.same ? spanBars(look.overlays, "y", cell, left - 2.5, colours) : [])),
    draw("g", { transform: `translate(${left} ${top})` }, ...cellsDrawn(sheet, { ...look, cell })),
  ] : lines.nodes;
  const words = [sheet.facts, ...drawnInWords(sheet.drawn, browser.overlays),
    isMap ? "" : shareInWords(sheet, found, sheet.value)].filter(Boolean);
  const wide = Math.max(width, 330);
  const facts = words.flatMap((line) => wrapped(line, wide, 12));
  return { width: wide, height: 22 + height + 14 + LEGEND + facts.length * 17 + 8, nodes: [
    text(11, count > 1 || sheet.colour ? sheet.name : "", colours.ink),
    draw("g", { transform: "translate(0 22)" }, ...nodes),
    draw("g", { transform: `translate(0 ${36 + height})` }, ...legendDrawn(sheet, sheet.value, colours)),
    ...facts.map((line, k) => text(36 + height + LEGEND + 14 + 17 * k, line, colours.faint)),
  ] };
}

/** The overview of a side: the heads as one image, labels and badges as text. */
function gridDrawn(browser, { side, atlas, order, layout, score }) {
  const { colours } = browser;
  const canvas = canvasOf(layout.width * 2, layout.height * 2);
  const pen = canvas.getContext("2d");
  pen.scale(2, 2);
  paintHeads(pen, atlas, order, layout, 2);
  const text = (size, traits) => draw("text", { "font-size": size, "font-family": FONT, ...traits });
  return { width: layout.width, height: layout.height + 22, nodes: [
    text(12, { y: 11, fill: colours.ink, text: browser.message.sides.length > 1 ? side.name : "" }),
    draw("g", { transform: "translate(0 22)" },
      draw("image", { href: canvas.toDataURL(), width: layout.width, height: layout.height }),
      ...thumbLabels(side, order, layout).map((label) => text(12, { x: label.x, y: label.y,
        fill: label.faint ? colours.faint : colours.ink, "text-anchor": label.anchor, text: label.text })),
      ...thumbBadges(score, order, layout).flatMap((mark) => [
        draw("rect", { x: mark.x, y: mark.y, width: mark.width, height: LABEL.size + 4, rx: 3, fill: colours.paper, "fill-opacity": 0.88 }),
        text(LABEL.size, { x: mark.x + 3, y: mark.y + LABEL.size + 0.5, fill: colours.ink, text: mark.text })])),
  ] };
}

/** The displayed values as CSV, with a precision of 1/255 of each map's maximum. */
function csvOf(browser, sheets) {
  const { message, state } = browser;
  const { grid } = message.sides[0];
  const cell = (text) => `"${String(text).replace(/^(?=[=+\-@\t\r])/, "'").replaceAll('"', '""')}"`;
  const lines = [`# ${message.value}, precision 1/255 of each map's maximum. ${visible(message.note || "")}`,
    `side,${grid.row_word},${grid.column_word},row_position,row_token,column_position,column_token,value`];
  for (const sheet of sheets) {
    const start = [cell(sheet.name), cell(grid.layers[state.cell[0]] ?? grid.rows[0]), cell(grid.heads[state.cell[1]] ?? grid.columns[0])].join(",");
    sheet.rows.forEach((row, i) => sheet.columns.forEach((column, j) => {
      if (sheet.masked(i, j)) return;
      const value = sheet.weight(i, j).toPrecision(4);
      lines.push(`${start},${row.i},${cell(row.t)},${column.i},${cell(column.t)},${value}`);
    }));
  }
  return new Blob([lines.join("\n"), "\n"], { type: "text/csv" });
}
