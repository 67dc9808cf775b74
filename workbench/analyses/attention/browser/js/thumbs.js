// Thumbnails: all heads of a side on one canvas, and the position of each.

const GAP = 6;
const GAP_OF_MANY = 3; // with more than MANY columns
const MANY = 12;
const heading = () => LABEL.size + 8; // px, the names above the columns
const SMALLEST = 36; // px, minimum of a thumbnail's longer side; then the box scrolls
const SMALLEST_OF_MANY = 24;
const LEGIBLE = 48; // px, from which a thumbnail has a number that nobody chose
const LARGEST = 104;
const LARGEST_WHERE_WIDE = 160; // where the grid has at least WIDE px
const WIDE = 700;
const LARGEST_OF_TWO = 64; // if two sides are compared
const MOST_PIXELS = 8e6; // of a canvas on screen

/** The value of the darkest colour of each map, if it is the same on both sides; null for one side. */
function sharedTops({ sides }) {
  if (sides.length < 2 || sides[0].value !== sides[1].value) return null;
  return sides[0].tops.map((tops, r) => tops.map((top, c) => Math.max(top ?? 0, sides[1].tops[r]?.[c] ?? 0)));
}

/** All maps of a side in one canvas; missing heads and masked pixels are transparent. */
function atlasOf(side, array, colours, shared = null) {
  const [rows, columns, height, width] = array.shape;
  const canvas = canvasOf(columns * width, rows * height);
  const pen = canvas.getContext("2d");
  const gone = new Set(side.missing.map(String));
  const image = pen.createImageData(width, height);
  const pixels = new Uint32Array(image.data.buffer);
  for (let r = 0; r < rows; r += 1) {
    const clear = clearOf(side, r, height, width);
    for (let c = 0; c < columns; c += 1) {
      if (gone.has(`${r},${c}`)) continue;
      const scale = shared?.[r]?.[c] ? (side.tops[r][c] ?? 0) / shared[r][c] : 1;
      const from = (r * columns + c) * height * width;
      for (let k = 0; k < pixels.length; k += 1) {
        pixels[k] = clear?.[k] ? 0 : colours.scaleTable[Math.round(scale * array.data[from + k])];
      }
      pen.putImageData(image, c * width, r * height);
    }
  }
  return { canvas, width, height };
}

/** Which pixels of a thumbnail contain only masked cells; null if there is no mask. */
function clearOf(side, r, height, width) {
  if (!hasMask(side, r)) return null;
  const masked = maskOf(side, windowOf(side, r));
  const first = (k, parts, whole) => Math.floor((k * whole) / parts);
  const last = (k, parts, whole) => Math.max(first(k, parts, whole), Math.ceil(((k + 1) * whole) / parts) - 1);
  return Uint8Array.from({ length: height * width }, (_, k) => {
    const [y, x] = [Math.floor(k / width), k % width];
    for (let i = first(y, height, side.rows.length); i <= last(y, height, side.rows.length); i += 1) {
      for (let j = first(x, width, side.columns.length); j <= last(x, width, side.columns.length); j += 1) {
        if (!masked(i, j)) return 0;
      }
    }
    return 1;
  });
}

/**
 * The position of each head in a box of this width: {places, width, height, wide, tall, …}. More
 * columns than fit are in bands below each other if these are at most `high`; else the box scrolls.
 */
function thumbLayout(side, order, room, shape, most = LARGEST, zoom = 1, numbered = false, high = 0) {
  const { down, across, turned } = axesOf(side.grid);
  const left = order.flow ? 2 : 10 + Math.max(...down.map((name) => textWidth(name)));
  const top = order.flow ? 2 : heading();
  const above = order.flow ? 16 : 0;
  const many = across.length > MANY && !numbered;
  const gap = many ? GAP_OF_MANY : GAP;
  const smallest = many ? SMALLEST_OF_MANY : SMALLEST;
  const { inBand, highest } = order.flow ? { inBand: across.length, highest: most }
    : bandsOf(across.length, down.length, { room: room - left, smallest, gap, high, most });
  const fits = Math.min((room - left) / inBand - gap, highest);
  const long = zoom * (order.flow ? bounded(fits, 56, 84) : bounded(fits, smallest, most));
  const scale = Math.floor(long) / Math.max(shape.width, shape.height);
  const wide = Math.max(SMALLEST_OF_MANY, Math.round(shape.width * scale));
  const tall = Math.max(SMALLEST_OF_MANY, Math.round(shape.height * scale));
  const [stepX, stepY] = [wide + gap, tall + gap + above];
  const inLine = order.flow ? Math.max(1, Math.floor((room - left) / stepX)) : inBand;
  const band = top + down.length * stepY;
  const places = order.heads.map(([r, c], k) => {
    if (order.flow) return { r, c, x: left + (k % inLine) * stepX, y: top + Math.floor(k / inLine) * stepY + above };
    const [line, at] = turned ? [c, r] : [r, c];
    return { r, c, x: left + (at % inBand) * stepX, y: top + Math.floor(at / inBand) * band + line * stepY };
  });
  const lines = Math.max(1, Math.ceil(places.length / inLine)); // in the order of a score
  return { places, wide, tall, above, left, top, inLine, stepX, stepY, band,
    width: left + Math.min(inLine, order.flow ? places.length || 1 : inLine) * stepX,
    height: order.flow ? top + lines * stepY : Math.ceil(across.length / inBand) * band };
}

/** How many columns a band has, and the largest thumbnail for which the bands are not too high. */
function bandsOf(across, down, { room, smallest, gap, high, most }) {
  const bands = Math.ceil(across / Math.max(1, Math.floor(room / (smallest + gap))));
  const highest = Math.floor((high / bands - heading()) / down) - gap;
  if (bands < 2 || highest < smallest) return { inBand: across, highest: most };
  return { inBand: Math.ceil(across / bands), highest };
}

/** Empties a canvas of this size on screen; returns its pen in CSS pixels, and device pixels per CSS pixel. */
function sizedCanvas(canvas, { width, height }) {
  const ratio = Math.min(window.devicePixelRatio || 1, Math.sqrt(MOST_PIXELS / (width * height)));
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  return { pen, ratio };
}

/** Draws heads, labels, badges and the mark of the focused head. */
function paintThumbs(canvas, { side, atlas, order, layout, score, focus, focused, colours, open = [], changed = [] }) {
  const { pen, ratio } = sizedCanvas(canvas, layout);
  paintHeads(pen, atlas, order, layout, ratio);
  for (const { text, x, y, anchor, faint } of thumbLabels(side, order, layout)) {
    pen.font = `${LABEL.size}px ${FONT}`;
    pen.fillStyle = faint ? colours.faint : colours.ink;
    pen.textAlign = anchor === "end" ? "right" : anchor === "middle" ? "center" : "left";
    pen.fillText(text, x, y);
  }
  for (const mark of thumbBadges(score, order, layout)) {
    pen.globalAlpha = 0.88;
    pen.fillStyle = colours.paper;
    pen.beginPath();
    pen.roundRect(mark.x, mark.y, mark.width, LABEL.size + 4, 3);
    pen.fill();
    pen.globalAlpha = 1;
    pen.fillStyle = colours.ink;
    pen.font = `${LABEL.size}px ${FONT}`;
    pen.textAlign = "left";
    pen.fillText(mark.text, mark.x + 3, mark.y + LABEL.size + 0.5);
  }
  const framed = (r, c, width, colour, dash = [], out = 2) => {
    const place = layout.places.find((one) => one.r === r && one.c === c);
    if (!place) return;
    pen.lineWidth = width;
    pen.strokeStyle = colour;
    pen.setLineDash(dash);
    pen.strokeRect(place.x - out, place.y - out, layout.wide + 2 * out, layout.tall + 2 * out);
    pen.setLineDash([]);
  };
  for (const [r, c] of changed) framed(r, c, 2, colours.accent, [4, 3], 1.5);
  for (const { at: [r, c], colour } of open) framed(r, c, 3, open.length > 1 ? colour : colours.ink, [], 2);
  const at = focused && layout.places.find(({ r, c }) => focus && r === focus[0] && c === focus[1]);
  if (at) {
    pen.lineWidth = 2.5;
    pen.strokeStyle = colours.accent;
    pen.strokeRect(at.x - 2, at.y - 2, layout.wide + 4, layout.tall + 4);
  }
}

function paintHeads(pen, atlas, order, layout, ratio = 1) {
  const { wide, tall } = layout;
  pen.imageSmoothingEnabled = wide * ratio < atlas.width;
  for (const { r, c, x, y } of layout.places) {
    pen.globalAlpha = order.kept([r, c]) ? 1 : 0.12;
    const [fromX, fromY] = [c * atlas.width, r * atlas.height];
    pen.drawImage(atlas.canvas, fromX, fromY, atlas.width, atlas.height, x, y, wide, tall);
  }
  pen.globalAlpha = 1;
}

/** The numbers of layers and heads, or a name above each head if they are sorted. */
function thumbLabels(side, order, layout) {
  if (order.flow) {
    return layout.places.map(({ r, c, x, y }) => ({ text: cellMark(side.grid, [r, c]), x, y: y - 4 }));
  }
  const { left, top, wide, tall, stepX, stepY, inLine, band } = layout;
  const { down, across } = axesOf(side.grid);
  const starts = Array.from({ length: Math.ceil(across.length / inLine) }, (_, k) => top + k * band);
  return [
    ...across.map((name, k) => ({ text: name, x: left + (k % inLine) * stepX + wide / 2, y: starts[Math.floor(k / inLine)] - 7, anchor: "middle", faint: true })),
    ...starts.flatMap((start) => down.map((name, k) => ({ text: name, x: left - 7, y: start + k * stepY + tall / 2 + 4, anchor: "end", faint: true }))),
  ];
}

function thumbBadges(score, order, layout) {
  if (!score) return [];
  const kept = layout.places.filter(({ r, c }) => order.kept([r, c]));
  return kept.map(({ r, c, x, y }) => {
    const text = fitted(badge(score, score.values[r]?.[c]), layout.wide - 8);
    const width = textWidth(text) + 6;
    return { text, width, x: x + layout.wide - width - 1, y: y + layout.tall - LABEL.size - 5 };
  });
}
