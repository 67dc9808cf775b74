// Colours: tables of 256 colours from five stops, and whether the page is dark.

/** 256 colours between the stops, as pixels of an ImageData. */
function table(stops) {
  const parts = stops.map(channels);
  return Uint32Array.from({ length: 256 }, (_, k) => {
    const at = (k / 255) * (parts.length - 1);
    const low = Math.min(Math.floor(at), parts.length - 2);
    const mix = parts[low].map((v, c) => Math.round(v + (parts[low + 1][c] - v) * (at - low)));
    return (255 << 24) | (mix[2] << 16) | (mix[1] << 8) | mix[0];
  });
}

function channels(hex) {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}

/** Whether the background of the node is dark: Streamlit's variable, else the page's colour. */
function isDark(node) {
  let colour = getComputedStyle(node).getPropertyValue("--st-background-color").trim();
  // out of shadow roots, and of a frame that another page of this origin shows
  for (let at = node; at && !colour; at = at.parentNode || at.host || at.defaultView?.frameElement) {
    if (at.nodeType !== Node.ELEMENT_NODE) continue;
    const found = getComputedStyle(at).backgroundColor;
    if (!/^rgba\(.*, 0\)$|^transparent$/.test(found)) colour = found;
  }
  if (!colour) return matchMedia("(prefers-color-scheme: dark)").matches;
  const pen = canvasOf(1, 1).getContext("2d");
  pen.fillStyle = "#ffffff";
  pen.fillStyle = colour;
  pen.fillRect(0, 0, 1, 1);
  const [red, green, blue] = pen.getImageData(0, 0, 1, 1).data;
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue < 128;
}

/** The palette of the current theme with its tables; also set as CSS variables. */
function coloursFor(root, palette) {
  const dark = isDark(root);
  const now = palette[dark ? "dark" : "light"];
  for (const name of ["paper", "ink", "faint", "lines", "accent"]) {
    root.style.setProperty(`--${name}`, now[name]);
  }
  root.style.setProperty("--bar", now.scale[dark ? 2 : 3]);
  root.style.setProperty("--below", now.around[0]);
  root.dataset.scheme = dark ? "dark" : "light";
  return { ...now, dark, scaleTable: table(now.scale), aroundTable: table(now.around) };
}
