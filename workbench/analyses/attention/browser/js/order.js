// Which heads are shown, and their order: that of the model, or by a score; with a filter.

/** The initial choice: the first score on the thumbnails, in the order of the model. */
function firstChoice(side) {
  return { score: side.scores[0]?.name || "", picked: false, order: "grid", least: null, most: null, values: null };
}

function scoreOf(side, name) {
  return side.scores.find((score) => score.name === name) || null;
}

/** {heads: [[r, c], …] in order, kept: (r, c) => bool, shown, total, flow} */
function arranged(side, choice) {
  const gone = new Set(side.missing.map(String));
  const heads = [];
  side.grid.rows.forEach((_, r) =>
    side.grid.columns.forEach((_, c) => gone.has(`${r},${c}`) || heads.push([r, c])),
  );
  const score = scoreOf(side, choice.score);
  const value = ([r, c]) => score?.values[r]?.[c] ?? null;
  const kept = (cell) => !score || passes(value(cell), score.kind, choice);
  const shown = heads.filter(kept);
  const flow = Boolean(score) && choice.order !== "grid";
  if (flow) shown.sort((one, other) => compared(value(one), value(other), choice.order));
  return { heads: flow ? shown : heads, kept, shown: shown.length, total: heads.length, flow };
}

function passes(value, kind, { least, most, values }) {
  if (kind === "text") return values === null || values.has(value);
  if (least === null && most === null) return true;
  return value !== null && (least === null || value >= least) && (most === null || value <= most);
}

/** Heads without a value come last; ties keep the grid's order (Array.sort is stable). */
function compared(one, other, order) {
  if (one === null || other === null) return (one === null) - (other === null);
  const rises = typeof one === "number" ? one - other : one < other ? -1 : one > other ? 1 : 0;
  return order === "down" ? -rises : rises;
}

/** The next existing cell in a direction, or the same one. */
function neighbour(side, [r, c], [down, across]) {
  const gone = new Set(side.missing.map(String));
  const { rows, columns } = side.grid;
  for (let y = r + down, x = c + across; rows[y] && columns[x]; y += down, x += across) {
    if (!gone.has(`${y},${x}`)) return [y, x];
  }
  return [r, c];
}

/** The names down and across of an overview, and the words for them; layers may be across. */
function axesOf({ rows, columns, row_word: row, column_word: column, layers_across: turned }) {
  return turned ? { down: columns, across: rows, downWord: column, acrossWord: row, turned: true }
    : { down: rows, across: columns, downWord: row, acrossWord: column, turned: false };
}

/** A step down and across in the overview as a step of row and column. */
function stepOf(grid, [down, across]) {
  return axesOf(grid).turned ? [across, down] : [down, across];
}

/** The heads that all sides have, as a side. */
function commonGrid(message) {
  const [one, other = one] = message.sides;
  const names = (way) => one.grid[way].slice(0, other.grid[way].length);
  const grid = { ...one.grid, rows: names("rows"), columns: names("columns") };
  return { grid, missing: [...one.missing, ...other.missing] };
}

function hasCell(side, cell) {
  return Boolean(
    cell && side.grid.rows[cell[0]] !== undefined && side.grid.columns[cell[1]] !== undefined &&
      !side.missing.some(([r, c]) => r === cell[0] && c === cell[1]),
  );
}
