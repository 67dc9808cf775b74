// Creates elements: text is inserted as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element: `on…` traits are listeners, `text` is its text, null and false are ignored. */
function make(name, traits = {}, ...inside) {
  return dressed(document.createElement(name), traits, inside);
}

/** An SVG element. */
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

/** An empty canvas of this size in pixels. */
function canvasOf(width, height) {
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, width);
  canvas.height = Math.max(1, height);
  return canvas;
}

/** Runs at most once per animation frame. */
function perFrame(work) {
  let frame = 0;
  return () => {
    if (!frame) frame = requestAnimationFrame(() => ((frame = 0), work()));
  };
}

/** Where the pointer is in a node, in the node's own pixels: a presentation may enlarge it. */
function pointed(event, node) {
  const { left, top } = node.getBoundingClientRect();
  const zoom = node.currentCSSZoom || 1;
  return [(event.clientX - left) / zoom, (event.clientY - top) / zoom];
}

function bounded(value, low, high) {
  return Math.min(Math.max(value, low), Math.max(low, high));
}

let drawings = 0;

/** An id that is unique on the page. */
function freshId(word) {
  drawings += 1;
  return `${word}-${drawings}`;
}
