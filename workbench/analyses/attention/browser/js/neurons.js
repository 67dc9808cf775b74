// Query and key of the pinned cell by dimension, and how they give the weight.

const ROWS = ["query", "key", "product"];

/** The panel below the pin; `show` takes the response, or a text instead. */
function neuronView() {
  const node = make("section", { class: "neurons", "aria-label": "query and key", hidden: true });

  function show(message, answer, colours, room) {
    node.hidden = !answer;
    if (!answer) return node.replaceChildren();
    if (typeof answer === "string" || !answer.sides) return node.replaceChildren(make("p", { class: "quiet", text: answer }));
    const parts = answer.sides.map((numbers, s) => {
      const name = answer.sides.length > 1 ? make("h5", { text: message.sides[s].name }) : null;
      const [query, key] = [answer.arrays[`query${s}`]?.data, answer.arrays[`key${s}`]?.data];
      if (numbers.why || !query || !key) return make("div", {}, name,
        make("p", { class: "quiet", text: numbers.why || "Query and key are not available." }));
      return make("div", {}, name, ...neuronRows(query, key, colours, room),
        make("p", { class: "sum", text: sumInWords(numbers, query, key) }));
    });
    return node.replaceChildren(...parts);
  }
  return { node, show };
}

/** "scale 0.125 × dot product 14.2 + bias 0 = score 1.775; weight after softmax: 0.3012" */
function sumInWords({ scale, rest, score, weight }, query, key) {
  const sum = query.reduce((total, q, k) => total + q * key[k], 0);
  return `scale ${plainly(scale)} × dot product ${plainly(sum)} + bias ${plainly(rest)} = ` +
    `score ${plainly(score)}; weight after softmax: ${plainly(weight)}`;
}

/** Three rows of cells, each with its own colour scale, and a line for the hovered dimension. */
function neuronRows(query, key, colours, room) {
  const values = [query, key, query.map((q, k) => q * key[k])];
  const [left, tall] = [62, 20];
  const cell = bounded((room - left) / query.length, 2, 14);
  const width = left + cell * query.length;
  const images = values.map((row, r) => {
    const canvas = canvasOf(row.length, 1);
    const pen = canvas.getContext("2d");
    const image = pen.createImageData(row.length, 1);
    const pixels = new Uint32Array(image.data.buffer);
    const top = row.reduce((most, v) => Math.max(most, Math.abs(v)), 0) || 1;
    row.forEach((v, k) => (pixels[k] = colours.aroundTable[Math.round((v / top + 1) * 127.5)]));
    pen.putImageData(image, 0, 0);
    return draw("image", { href: canvas.toDataURL(), x: left, y: r * (tall + 4), width: width - left, height: tall,
      preserveAspectRatio: "none", style: "image-rendering:pixelated" });
  });
  const labels = ROWS.map((name, r) => draw("text", { x: 0, y: r * (tall + 4) + 14, "font-size": 12,
    "font-family": FONT, fill: colours.faint, text: name }));
  const cursor = draw("rect", { y: 0, width: cell, height: 3 * tall + 8, fill: "none", stroke: colours.ink, visibility: "hidden" });
  const words = make("p", { class: "quiet", text: `${query.length} dimensions. Hover over one to see its values.` });
  const picture = draw("svg", { width, height: 3 * (tall + 4), role: "img",
    "aria-label": `query, key and their product in ${query.length} dimensions` }, ...images, ...labels, cursor);
  picture.addEventListener("pointermove", (event) => {
    const k = Math.floor((pointed(event, picture)[0] - left) / cell);
    if (k < 0 || k >= query.length) return;
    cursor.setAttribute("x", left + k * cell);
    cursor.setAttribute("visibility", "visible");
    words.textContent = `dimension ${k}: query ${plainly(query[k])} × key ${plainly(key[k])} = ${plainly(query[k] * key[k])}`;
  });
  return [make("div", { class: "scroll" }, picture), words];
}
