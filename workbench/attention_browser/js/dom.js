// Making elements: text goes in as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";

/** An element: `on…` traits listen, `text` is its text, null and false are left out. */
function make(name, traits = {}, ...inside) {
  return dressed(document.createElement(name), traits, inside);
}

/** The same in SVG. */
function draw(name, traits = {}, ...inside) {
  return dressed(document.createElementNS(SVG, name), traits, inside);
}

function dressed(node, traits, inside) {
  for (const [trait, value] of Object.entries(traits)) {
    if (value === null || value === undefined || value === false) continue;
    if (trait === "text") node.textContent = value;
    else if (trait.startsWith("on")) node.addEventListener(trait.slice(2), value);
    else node.setAttribute(trait, value === true ? "" : value);
  }
  node.append(...inside.filter((part) => part !== null && part !== undefined));
  return node;
}

/** An empty canvas of that many pixels. */
function canvasOf(width, height) {
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, width);
  canvas.height = Math.max(1, height);
  return canvas;
}

/** Runs once per frame of the screen, however often it is called. */
function perFrame(work) {
  let asked = 0;
  return () => {
    if (!asked) asked = requestAnimationFrame(() => ((asked = 0), work()));
  };
}

function bounded(value, low, high) {
  return Math.min(Math.max(value, low), Math.max(low, high));
}

let drawings = 0;

/** A name that no other drawing of the page has. */
function freshId(word) {
  drawings += 1;
  return `${word}-${drawings}`;
}
