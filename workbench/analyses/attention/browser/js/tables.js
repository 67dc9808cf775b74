// Tables that say what a picture shows, for screen readers and for copying; built when opened.

const MOST_ROWS = 200;
const PER_TOKEN = 3;

/** A table behind a disclosure; `made()` returns [column names, rows]. */
function tableOf(label, made) {
  const box = make("div", { class: "scroll" });
  const node = make("details", { class: "twin", ontoggle: sync }, make("summary", { text: label }), box);
  function sync() {
    if (!node.open) return box.replaceChildren();
    const [columns, rows] = made();
    const row = (cells, kind) => make("tr", {}, ...cells.map((text, k) =>
      make(k ? kind : "th", k ? {} : { scope: kind === "th" ? "col" : "row" }, make("bdi", { text: String(text) }))));
    box.replaceChildren(make("table", {}, make("caption", { text: label }), make("thead", {}, row(columns, "th")),
      make("tbody", {}, ...rows.slice(0, MOST_ROWS).map((cells) => row(cells, "td")))));
  }
  return { node, sync };
}

/** Layers by heads, with the current score of each. */
function headsTable(browser) {
  const [side] = browser.message.sides;
  const score = scoreOf(side, browser.choice.score);
  const { rows, columns, row_word: row } = side.grid;
  return [[row, ...columns], rows.map((name, r) => [name, ...columns.map((_, c) =>
    (side.tops[r]?.[c] === null || side.tops[r]?.[c] === undefined ? "none" : score ? badge(score, score.values[r]?.[c]) : roughly(side.tops[r][c], 1)))])];
}

/** For each token, the tokens with its largest weights. */
function weightsTable(sheet) {
  if (!sheet) return [["token"], []];
  const names = Array.from({ length: PER_TOKEN }, (_, k) => `${k + 1}. attended token`);
  return [["token", ...names], sheet.rows.slice(0, MOST_ROWS).map((item, i) => {
    const row = [];
    sheet.columns.forEach((_, j) => sheet.masked(i, j) || keepLargest(row, [i, j, sheet.weight(i, j)], PER_TOKEN));
    return [visible(item.t), ...row.map(([, j, value]) => `${visible(sheet.columns[j].t)} ${shownValue(sheet, { value })}`)];
  })];
}
