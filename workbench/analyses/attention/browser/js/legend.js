// The legend of a sheet: its colour scale, and the sign for masked cells.

const LEGEND = 34; // px, height

function legendDrawn(sheet, value, colours) {
  const id = freshId("legend");
  const stops = sheet.signed ? colours.around : colours.scale;
  const text = (x, anchor, words) => draw("text", { x, y: 26, "text-anchor": anchor, "font-size": 12,
    "font-family": FONT, fill: colours.faint, text: words });
  const shown = (v) => (v && sheet.signed && v > 0 ? "+" : "") + roughly(v, sheet.scale);
  const parts = [
    draw("defs", {}, draw("linearGradient", { id }, ...stops.map((colour, k) =>
      draw("stop", { offset: k / (stops.length - 1), "stop-color": colour })))),
    draw("rect", { x: 0, y: 2, width: 160, height: 10, rx: 2, fill: `url(#${id})` }),
    text(0, "start", sheet.signed ? shown(-sheet.scale) : "0"),
    ...(sheet.signed ? [text(80, "middle", "0")] : []),
    text(160, "end", shown(sheet.scale)),
    draw("text", { x: 172, y: 11, "font-size": 12, "font-family": FONT, fill: colours.faint,
      text: sheet.signed ? "difference" : value }),
  ];
  if (sheet.hatched) {
    const hatch = freshId("hatch");
    parts.push(draw("defs", {}, hatching(hatch, colours)),
      draw("rect", { x: 172, y: 17, width: 22, height: 10, fill: `url(#${hatch})`, stroke: colours.lines }),
      draw("text", { x: 200, y: 26, "font-size": 12, "font-family": FONT, fill: colours.faint, text: "masked" }));
  }
  return parts;
}

function legendOf(sheet, value, colours) {
  return draw("svg", { class: "legend", width: 330, height: LEGEND, role: "img",
    "aria-label": `colours from ${sheet.signed ? roughly(-sheet.scale, sheet.scale) : 0} to ${roughly(sheet.scale, sheet.scale)}` },
  ...legendDrawn(sheet, value, colours));
}
