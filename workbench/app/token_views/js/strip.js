// A strip of tokens: each is a button, coloured by its score; tools change a token.

const NUMBERS = 72; // tokens; a longer strip shows its numbers only when pointed at

/** Draws a strip; `send` receives {i, tool, word} of a chosen token. */
function strip(view, colours, send, memory) {
  const buttons = [];
  const state = (memory[view.name] ||= { tool: view.tools?.[0]?.name ?? "", focus: -1 });
  if (view.tools && !view.tools.some((tool) => tool.name === state.tool)) state.tool = view.tools[0].name;
  const can = (item) => view.pickable && !item.fixed;
  const list = make("div", { class: "strip", role: "group", "aria-label": view.label, dir: view.rtl ? "rtl" : "ltr" });
  const shown = view.items.length <= NUMBERS;
  if (view.scrolls) scrolling(list, state, view.items.length);

  view.items.forEach((item, at) => {
    const node = can(item)
      ? make("button", { type: "button", class: "token", tabindex: "-1", "aria-pressed": String(at === view.selected) })
      : make("span", { class: "token" });
    node.dataset.at = at;
    for (const sign of [item.special && "special", item.mark, item.slot && "slot", at === view.selected && "selected", item.chosen && "chosen"]) {
      if (sign) node.classList.add(sign);
    }
    if (item.chosen) node.setAttribute("aria-current", "true");
    node.append(make("bdi", { class: "t", text: item.slot ? item.t : visible(item.t) }));
    if (item.under) node.append(make("bdi", { class: "under", text: visible(item.under) }));
    if (item.score !== null && item.score !== undefined) {
      tint(node, item.score / (view.top || 1), colours, view.diverging);
      if (shown) node.append(make("span", { class: "number", text: signed(item.score, view.top, view.diverging) }));
    }
    const about = [item.tip, item.mark && MARKS[item.mark]].filter(Boolean).join(". ");
    if (about) node.setAttribute("title", visible(about));
    if (about || item.slot) node.setAttribute("aria-label", [item.slot ? item.t : visible(item.t), about && visible(about)].filter(Boolean).join(": "));
    if (can(item)) {
      node.addEventListener("click", () => pick(at, node));
      node.addEventListener("focus", () => { state.focus = at; });
      buttons.push(node);
    }
    list.append(node);
  });

  function pick(at, node) {
    state.focus = at;
    if (state.tool !== "replace") return send({ i: view.items[at].i, tool: state.tool, word: "" });
    const box = make("input", { type: "text", class: "word", value: view.items[at].t, maxlength: 80, "aria-label": "New word" });
    const end = (isDone) => {
      if (!box.isConnected) return;
      box.replaceWith(node);
      node.focus();
      const word = box.value.trim();
      if (isDone && word && word !== view.items[at].t) send({ i: view.items[at].i, tool: "replace", word });
    };
    box.addEventListener("keydown", (event) => {
      event.stopPropagation();
      if (event.key === "Enter") end(true);
      else if (event.key === "Escape") end(false);
    });
    box.addEventListener("blur", () => end(true));
    node.replaceWith(box);
    box.select();
  }

  roving(list, buttons, state, view.items.findIndex((_, at) => at === view.selected), view.rtl);
  return make("section", { class: "block" },
    view.tools && toolbar(view.tools, state),
    list,
    view.legend && legend(view, colours),
    view.note && make("p", { class: "note", text: view.note }));
}

/** A long strip scrolls within its height, and stays where it was when it is drawn again. */
function scrolling(list, state, size) {
  if (state.size !== size) Object.assign(state, { size, scroll: undefined }); // another text
  list.classList.add("scrolls");
  list.addEventListener("scroll", () => { state.scroll = list.scrollTop; });
  requestAnimationFrame(() => {
    const selected = list.querySelector(".selected");
    if (state.scroll !== undefined) list.scrollTop = state.scroll;
    else if (selected && selected.offsetTop + selected.offsetHeight > list.clientHeight) list.scrollTop = selected.offsetTop - list.clientHeight / 2;
  });
}

const MARKS = { hidden: "hidden", deleted: "deleted", changed: "changed", moved: "moved" };

/** Arrow keys move between the buttons, of which one is in the order of Tab. */
function roving(list, buttons, state, first, rtl) {
  if (!buttons.length) return;
  const start = buttons.find((button) => Number(button.dataset.at) === (state.focus >= 0 ? state.focus : first)) || buttons[0];
  start.tabIndex = 0;
  list.addEventListener("keydown", (event) => {
    const now = buttons.indexOf(event.target.closest?.("button"));
    if (now < 0) return;
    const step = { ArrowRight: rtl ? -1 : 1, ArrowLeft: rtl ? 1 : -1, ArrowDown: 1, ArrowUp: -1 }[event.key];
    const next = event.key === "Home" ? 0 : event.key === "End" ? buttons.length - 1 : step ? now + step : -1;
    if (step || event.key === "Home" || event.key === "End") event.preventDefault();
    if (!buttons[next]) return;
    buttons[now].tabIndex = -1;
    buttons[next].tabIndex = 0;
    buttons[next].focus();
  });
}

/** What a click does: one button of a row is pressed. */
function toolbar(tools, state) {
  const buttons = tools.map((tool) => make("button", {
    type: "button", title: tool.help, "aria-pressed": String(tool.name === state.tool), text: tool.label,
    onclick: (event) => {
      state.tool = tool.name;
      buttons.forEach((button) => button.setAttribute("aria-pressed", String(button === event.currentTarget)));
    },
  }));
  return make("div", { class: "tools", role: "group", "aria-label": "What a click on a word does" },
    make("span", { class: "faint", text: "Click a word to" }), make("span", { class: "segment" }, ...buttons));
}

/** Colours a node by a share of the largest score; its text stays legible. */
function tint(node, share, colours, diverging) {
  const at = diverging ? 127.5 + 127.5 * bounded(share, -1, 1) : 255 * bounded(share, 0, 1);
  const pixel = (diverging ? colours.aroundTable : colours.scaleTable)[Math.round(at)];
  const [red, green, blue] = [pixel & 255, (pixel >> 8) & 255, (pixel >> 16) & 255];
  const light = [red, green, blue].map((part) => (part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
  const luminance = 0.2126 * light[0] + 0.7152 * light[1] + 0.0722 * light[2];
  node.style.setProperty("background", `rgb(${red} ${green} ${blue})`);
  node.classList.add("tinted");
  node.style.setProperty("color", luminance > 0.18 ? "#101418" : "#ffffff");
}

function signed(score, top, diverging, percent) {
  if (percent) {
    const share = Math.round(100 * score);
    return `${share < 0 ? "−" : ""}${Math.abs(share)} %`;
  }
  const decimals = top >= 10 ? 1 : top >= 0.095 ? 2 : 3;
  const text = Math.abs(score).toFixed(decimals);
  if (Number(text) === 0) return "0";
  return `${score < 0 ? "−" : diverging ? "+" : ""}${text}`;
}

/** The scale of the colours, with what its ends mean. */
function legend(view, colours) {
  const stops = (view.diverging ? colours.around : colours.scale).join(", ");
  const bar = make("span", { class: "scale" });
  bar.style.setProperty("background", `linear-gradient(90deg, ${stops})`);
  const end = (value) => signed(value, view.top, view.diverging, view.percent);
  return make("p", { class: "legend" },
    make("span", { text: `${view.diverging ? end(-view.top) : 0} ${view.legend.low}` }), bar,
    make("span", { text: `${end(view.top)} ${view.legend.high}` }));
}
