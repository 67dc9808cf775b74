// Draws all figures with the light, dark or print template.
"use strict";
(() => {
  const PAPER_WIDTH = 680; // width in pixels between the margins of an A4 page
  const templates = JSON.parse(document.getElementById("templates").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const coarse = matchMedia("(pointer: coarse)"); // on touch screens a drag scrolls the page and does not zoom
  const settings = {
    responsive: true,
    displaylogo: false,
    modeBarButtonsToRemove: ["lasso2d", "select2d", "autoScale2d"],
  };
  Plotly.setPlotConfig({ logging: 0 }); // no warnings about bars that are coloured by numbers
  const plots = [...document.querySelectorAll(".plot")];

  const kind = (printing) => (printing ? "print" : dark.matches ? "dark" : "light");

  function draw(plot, printing) {
    const figure = JSON.parse(plot.nextElementSibling.textContent);
    const layout = { ...figure.layout, template: templates[kind(printing)] };
    if (coarse.matches) layout.dragmode ??= false;
    if (printing) layout.width = PAPER_WIDTH;
    else delete layout.width;
    const failed = (error) => {
      plot.textContent = `This figure cannot be drawn: ${error.message ?? error}`;
      plot.style.height = "auto";
    };
    try {
      Plotly.react(plot, figure.data, layout, settings).catch(failed);
    } catch (error) {
      failed(error);
    }
  }

  const drawAll = (printing) => plots.forEach((plot) => draw(plot, printing));
  document.documentElement.classList.add("drawn");
  drawAll(false);
  dark.addEventListener("change", () => drawAll(false));
  addEventListener("beforeprint", () => drawAll(true));
  addEventListener("afterprint", () => drawAll(false));
})();
