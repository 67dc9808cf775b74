// Shows the values of the marks of all figures in `place`, an element: at the pointer, and with the
// arrow keys in a focused figure.
"use strict";
function figureTips(place) {
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.setAttribute("role", "status");
  place.append(tip);
  let marked = null;

  function hide() {
    tip.classList.remove("shown");
    marked?.classList.remove("marked");
    marked = null;
  }

  function show(mark, x, y) {
    if (mark !== marked) {
      hide();
      marked = mark;
      mark.classList.add("marked");
      tip.textContent = mark.dataset.tip;
      tip.classList.add("shown");
    }
    tip.style.left = tip.style.top = "0"; // of the window, or of what a notebook moves
    const { left, top, width, height } = tip.getBoundingClientRect();
    const above = y - height - 12;
    tip.style.left = `${Math.max(8, Math.min(x - width / 2, innerWidth - width - 8)) - left}px`;
    tip.style.top = `${(above < 8 ? y + 16 : above) - top}px`;
  }

  place.addEventListener("pointermove", (event) => {
    const mark = event.target.closest?.("[data-tip]");
    if (mark) show(mark, event.clientX, event.clientY);
    else if (marked && !document.activeElement?.contains(marked)) hide();
  });
  place.addEventListener("pointerleave", () => {
    if (marked && !document.activeElement?.contains(marked)) hide();
  });
  place.addEventListener("pointerdown", (event) => {
    const mark = event.target.closest?.("[data-tip]");
    if (mark) show(mark, event.clientX, event.clientY);
    else hide();
  });
  addEventListener("scroll", hide, { passive: true });

  const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -Infinity, End: Infinity };
  for (const drawing of place.querySelectorAll(".drawing")) {
    const marks = [...drawing.querySelectorAll("[data-tip]")];
    if (!marks.length) continue;
    drawing.tabIndex = 0;
    drawing.setAttribute("role", "group");
    drawing.setAttribute("aria-label", "Figure. The arrow keys move from mark to mark.");
    let at = -1;
    drawing.addEventListener("keydown", (event) => {
      if (!(event.key in steps)) return;
      event.preventDefault();
      at = Math.max(0, Math.min(at + steps[event.key], marks.length - 1));
      const box = marks[at].getBoundingClientRect();
      show(marks[at], box.x + box.width / 2, box.y);
    });
    drawing.addEventListener("blur", hide);
  }
  place.addEventListener("keydown", (event) => {
    if (event.key === "Escape") hide();
  });
}
