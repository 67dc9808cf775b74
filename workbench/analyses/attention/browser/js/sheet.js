// Sheets: the maps of one open head, one for each side, and their difference.

/** The sheets of a response: one for each side, and the difference if it is defined. */
function sheetsOf(message, answer) {
  const sheets = message.sides.map((side, s) => sheetOfSide(side, s, answer)).filter(Boolean);
  if (sheets.length === 2 && sheets[0].value === sheets[1].value) {
    const scale = Math.max(sheets[0].top, sheets[1].top); // the same colours on both sides
    sheets.forEach((sheet) => Object.assign(sheet, { scale, shared: true }));
  }
  if (sheets.length === 2 && message.difference?.possible) sheets.push(differenceOf(...sheets));
  return sheets;
}

/** One side's map: its values as they are, or bytes of 1/255 of the largest value. */
function sheetOfSide(side, s, answer) {
  const map = answer.arrays[`map${s}`];
  if (!map) return null;
  const numbers = answer.sides[s];
  const [height, width] = map.shape;
  const isExact = map.data instanceof Float32Array;
  const step = isExact ? 0 : numbers.top / 255;
  const at = isExact ? (k) => map.data[k] : (k) => map.data[k] * step;
  const sheet = {
    key: s,
    name: side.name,
    short: side.name,
    side,
    value: numbers.value || side.value,
    rows: side.rows,
    columns: side.columns,
    height,
    width,
    signed: false,
    top: numbers.top,
    scale: numbers.top,
    shared: false,
    step,
    facts: numbers.facts || "",
    caption: numbers.caption || "",
    drawn: numbers.drawn || {},
    tone: (k) => (sheet.scale ? bounded(Math.round((at(k) / sheet.scale) * 255), 0, 255) : 0),
    weight: (i, j) => at(i * width + j),
    hatched: hasMask(side, answer.row),
    why: side.hidden ? "hidden by the order" : windowOf(side, answer.row) ? "outside of the window" : "a later token",
    masked: maskOf(side, windowOf(side, answer.row)),
  };
  return sheet;
}

/** How many pieces away the attention of a row of the grid goes at most; 0: no limit. */
function windowOf(side, row) {
  return side.windows?.[row] || 0;
}

/** Whether a row of the grid has masked cells. */
function hasMask(side, row) {
  return Boolean(side.causal || windowOf(side, row) || side.hidden);
}

/**
 * The mask of a causal model, of attention in a window, and of a prediction order: masked cells are not drawn, which
 * differs from zero.
 */
function maskOf(side, window) {
  if (!side.causal && !window && !side.hidden) return () => false;
  return (i, j) => {
    const [row, column] = [side.rows[i], side.columns[j]];
    if (side.hidden?.[i * side.columns.length + j]) return true;
    if (side.causal && column.i > row.i) return true;
    return window > 0 && Math.max(column.i - row.to, row.i - column.to) > window
      && Math.min(row.i, column.i) >= side.n_global;
  };
}

function differenceOf(one, other) {
  const { width, height } = one;
  const values = new Float32Array(width * height);
  let top = 0;
  for (let i = 0; i < height; i += 1) {
    for (let j = 0; j < width; j += 1) {
      if (one.masked(i, j)) continue;
      const value = one.weight(i, j) - other.weight(i, j);
      values[i * width + j] = value;
      top = Math.max(top, Math.abs(value));
    }
  }
  return {
    ...one,
    key: "difference",
    short: "difference",
    name: `Difference: ${one.name} minus ${other.name}`,
    signed: true,
    top,
    scale: top,
    shared: false,
    caption: "",
    step: one.step + other.step,
    facts: "",
    drawn: {},
    tone: (k) => (top ? Math.round((values[k] / top + 1) * 127.5) : 128),
    weight: (i, j) => values[i * width + j],
  };
}

/** Whether all sides have equally many rows and columns, so that a pin applies to each. */
function inStep(message) {
  const [one, ...others] = message.sides;
  return others.every(
    (side) => side.rows.length === one.rows.length && side.columns.length === one.columns.length,
  );
}

/** Row i or column j of a sheet: exact if the response has it, else from the map. */
function partners(sheet, pin, exact) {
  const across = pin.axis === "row";
  const from = (s) => exact?.arrays[`${pin.axis}${s}`]?.data;
  let known = sheet.key === "difference" ? null : from(sheet.key);
  if (sheet.key === "difference" && from(0) && from(1)) known = from(0).map((v, k) => v - from(1)[k]);
  const found = [];
  for (let k = 0; k < (across ? sheet.width : sheet.height); k += 1) {
    const [i, j] = across ? [pin.i, k] : [k, pin.j];
    if (sheet.masked(i, j)) continue;
    found.push({ i, j, item: across ? sheet.columns[j] : sheet.rows[i], sure: Boolean(known) || !sheet.step,
      value: known ? known[k] : sheet.weight(i, j) });
  }
  return found;
}

/** A value as text: three digits; with ≈ if it is known only to 1/255 of the maximum. */
function shownValue(sheet, { value, sure = !sheet.step }) {
  const text = sure ? exactly(value) : `≈ ${roughly(value, sheet.top)}`;
  return sheet.signed && value > 0 ? `+${text}` : text;
}
