// Overlays: pairs and spans of tokens from gold annotation, such as dependencies.

const OUTLINES = ["none", "4 2", "1.5 2", "7 2 1.5 2"]; // one for each kind, distinct without colour

/** The overlays of a side that are switched on, each with its dash pattern. */
function overlaysOn(side, chosen) {
  return side.overlays
    .map((overlay, k) => ({ ...overlay, dashes: OUTLINES[k % OUTLINES.length] }))
    .filter((overlay) => chosen.has(overlay.name));
}

function labelsByCell(sheet, overlays) {
  const labels = new Map();
  for (const overlay of overlays) {
    for (const [i, j, label] of overlay.pairs) {
      const key = i * sheet.width + j;
      labels.set(key, [...(labels.get(key) || []), `${overlay.name}: ${visible(label)}`]);
    }
  }
  return labels;
}

/** Outlines around the cells of the pairs: one path for each overlay. */
function outlined(overlays, cell, colours) {
  return overlays.filter((overlay) => overlay.pairs.length).map((overlay) => {
    const inset = Math.min(1, cell / 6);
    const side = Math.max(cell - 2 * inset, 1);
    const way = overlay.pairs.map(
      ([i, j]) => `M${j * cell + inset} ${i * cell + inset}h${side}v${side}h${-side}z`,
    );
    return draw("path", { class: "pairs", d: way.join(""), fill: "none", stroke: colours.accent,
      "stroke-width": bounded(cell / 9, 1, 2), "stroke-dasharray": overlay.dashes });
  });
}

/** The pairs as curves between the two columns of tokens. */
function curved(overlays, { y, left, right }, colours) {
  const middle = (left + right) / 2;
  return overlays.filter((overlay) => overlay.pairs.length).map((overlay) => {
    const way = overlay.pairs.map(
      ([i, j]) => `M${left} ${y(i)}C${middle} ${y(i)} ${middle} ${y(j)} ${right} ${y(j)}`,
    );
    return draw("path", { class: "pairs", d: way.join(""), fill: "none", stroke: colours.accent,
      "stroke-width": 1.5, "stroke-dasharray": overlay.dashes, opacity: 0.85 });
  });
}

/** Bars along an axis for spans (half-open). `along` is "x" or "y"; `at` is the other coordinate. */
function spanBars(overlays, along, cell, at, colours) {
  const spans = overlays.flatMap((overlay) => overlay.spans || []);
  if (!spans.length) return [];
  const way = spans.map(([first, last]) => {
    const [from, to] = [first * cell + 1, last * cell - 1];
    return along === "x" ? `M${from} ${at}H${to}` : `M${at} ${from}V${to}`;
  });
  return [draw("path", { class: "spans", d: way.join(""), stroke: colours.accent, "stroke-width": 2.5,
    fill: "none" })];
}

function spanLabels(overlays, index) {
  return overlays.flatMap((overlay) =>
    (overlay.spans || [])
      .filter(([first, last]) => index >= first && index < last)
      .map(([, , label]) => `${overlay.name}: ${visible(label)}`),
  );
}

/** "draws 5 of 7 dependencies (dependent to governor); 1 of 7 (governor to dependent)" */
function drawnInWords(drawn, chosen) {
  return Object.entries(drawn)
    .filter(([name, { of, back_of: backOf }]) => chosen.has(name) && (of || backOf))
    .map(([name, { hits, of, back_hits: back, back_of: backOf }]) => {
      const [there, again] = name === "dependencies"
        ? ["dependent to governor", "governor to dependent"] : ["first to second", "second to first"];
      const forth = `draws ${hits} of ${of} ${name}`;
      return backOf === undefined || backOf === null ? forth : `${forth} (${there}); ${back} of ${backOf} (${again})`;
    });
}
