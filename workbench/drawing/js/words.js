// Tokens, cells and numbers as text: invisible characters get a sign, long texts are cut.

const FONT = "Inter, system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif";
const SIGNS = { "\n": "↵", "\r": "␍", "\t": "⇥" };
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\ufffe\uffff]/g;
const graphemes = Intl.Segmenter ? new Intl.Segmenter() : null;
const measuring = document.createElement("canvas").getContext("2d");
const fittedBefore = new Map();

/** The token, with signs for invisible characters; marks of word starts are spaces, as in sanitize.py. */
function visible(token) {
  if (token === "") return "∅";
  return spaced(token)
    .replace(UNSEEN, (sign) => SIGNS[sign] || `⟨U+${code(sign)}⟩`)
    .replace(/^\s+$/, (blanks) => "␣".repeat(blanks.length));
}

/** A piece with the mark of a word start drawn as a space; a lone mark is drawn as ␣. */
function spaced(piece) {
  return piece.replace(/▁+(?=$|[\s”])/g, (run) => "␣".repeat(run.length)).replaceAll("▁", "\u00a0");
}

function code(sign) {
  return sign.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
}

const LABEL = { size: 12, line: 13 }; // px, of tokens and numbers in a figure; larger before an audience

function textWidth(text, size = LABEL.size) {
  measuring.font = `${size}px ${FONT}`;
  return measuring.measureText(text).width;
}

/** The token cut to a width in pixels. */
function fitted(token, room, size = LABEL.size) {
  const key = `${size}|${Math.round(room)}|${token}`;
  if (!fittedBefore.has(key)) {
    if (fittedBefore.size > 20000) fittedBefore.clear();
    fittedBefore.set(key, cut(visible(token), room, size));
  }
  return fittedBefore.get(key);
}

function cut(text, room, size) {
  if (text.length < 80 && textWidth(text, size) <= room) return text;
  const start = text.slice(0, 80);
  const parts = graphemes ? [...graphemes.segment(start)].map((p) => p.segment) : [...start];
  while (parts.length > 1 && textWidth(`${parts.join("")}…`, size) > room) parts.pop();
  return `${parts.join("")}…`;
}

/** A token in a sentence: quoted, with its text direction isolated. */
function quoted(item) {
  return `“\u2068${visible(item.t)}\u2069” (${item.i})`;
}

/** A value with a precision of 1/255 of the maximum. */
function roughly(value, top) {
  const decimals = top > 0 ? bounded(3 - Math.ceil(Math.log10(top)), 0, 9) : 3;
  return value.toFixed(decimals).replace("-", "−");
}

/** Three significant digits: the same wherever an exact value is shown. */
function exactly(value) {
  return (value === 0 ? "0" : value.toPrecision(3)).replace("-", "−");
}

/** At most four significant digits, without trailing zeros. */
function plainly(value) {
  return String(Number(value.toPrecision(4))).replace("-", "−");
}

function percent(share) {
  return `${(100 * share).toFixed(share > 0.9995 || share === 0 ? 0 : 1).replace(/\.0$/, "")} %`;
}

function thousands(count) {
  return String(count).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** The text of a score on a thumbnail. */
function badge(score, value) {
  if (value === null || value === undefined) return "–";
  if (typeof value !== "number") return String(value);
  const size = Math.abs(value);
  if (size >= 1000) return value.toExponential(0);
  return value.toFixed(size >= 100 || Number.isInteger(value) ? 0 : size >= 10 ? 1 : 2);
}

function numbered(word, name) {
  return word && /^\d/.test(name) ? `${word} ${name}` : name;
}

/** "layer 3, head 5" */
function cellName(grid, [r, c]) {
  return `${numbered(grid.row_word, grid.rows[r])}, ${numbered(grid.column_word, grid.columns[c])}`;
}

/** "Head 3.5": layer and head, or the names of combined heads. */
function headName(grid, [r, c]) {
  const [row, column] = [grid.rows[r], grid.columns[c]];
  return /^\d/.test(row) && /^\d/.test(column) ? `Head ${row}.${column}` : cellName(grid, [r, c]).replace(/^./, (first) => first.toUpperCase());
}

/** "3.5" */
function cellMark(grid, [r, c]) {
  return `${grid.rows[r]}.${grid.columns[c]}`;
}

/** A file name from the title and the head. */
function fileName(message, cell, ending) {
  const grid = message.sides[0].grid;
  const place = cell ? headName(grid, cell) : "";
  const plain = (text) => text.toLowerCase().replace(/[^a-z0-9.]+/g, "-").replace(/^-|-$/g, "");
  return `${plain(`attention ${message.title}`).slice(0, 60)}${place && `-${plain(place)}`}.${ending}`;
}
