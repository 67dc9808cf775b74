// The pinned cell: its exact value, the largest values of its row or column, query and key.

const PARTNERS = 12;

/** The panel next to the maps; `show` takes the sheets and the response with exact values, if any. */
function pinView(browser) {
  const heading = make("h4");
  const axis = segmentOf("Pinned", [["row", "Row"], ["column", "Column"]], () => browser.state.pin?.axis,
    (to) => browser.change({ pin: { ...browser.state.pin, axis: to } }));
  const neurons = buttonOf("Query and key", () => browser.toggleNeurons(), { "aria-expanded": "false" });
  const why = make("p", { class: "quiet" });
  const tools = make("div", { class: "tools" }, axis.node,
    buttonOf("Unpin", () => browser.change({ pin: null })), neurons);
  const lists = make("div", { class: "lists" });
  const hint = make("p", { class: "quiet", text: "Click a cell to pin its row and see exact values." });
  const node = make("aside", { class: "pinned", "aria-label": "pinned cell" }, hint, heading, tools, lists, why);

  function show(sheets, exact) {
    const { pin } = browser.state;
    const pinned = sheets.filter((sheet) => browser.pinOn(sheet));
    for (const part of [heading, tools, lists, why]) part.hidden = !pinned.length;
    hint.hidden = Boolean(pinned.length);
    if (!pinned.length) return;
    const across = pin.axis === "row";
    heading.textContent = across ? `${quoted(pinned[0].rows[pin.i])} attends to`
      : `${quoted(pinned[0].columns[pin.j])} is attended by`;
    axis.sync();
    const { neurons: available, offline } = browser.message;
    const can = available === true && !offline;
    neurons.hidden = !can;
    neurons.setAttribute("aria-expanded", browser.neuronsOpen);
    why.hidden = can;
    why.textContent = can ? "" : available === true ? "Query and key are not stored in this file." : available;
    lists.replaceChildren(...pinned.map((sheet) => partnerList(sheet, sheets.length > 1)));

    function partnerList(sheet, named) {
      const all = partners(sheet, pin, exact);
      const own = all.find(({ i, j }) => i === pin.i && j === pin.j);
      const most = [...all].sort((one, other) => Math.abs(other.value) - Math.abs(one.value));
      const top = Math.abs(most[0]?.value ?? 0);
      return make("section", {}, named ? make("h5", { text: sheet.name }) : null,
        make("p", { class: "exact", text: ownInWords(sheet, pin, own) }),
        make("ol", { class: "bars" }, ...most.slice(0, PARTNERS).map((partner) => bar(sheet, partner, top, partner === own))));
    }
  }

  function bar(sheet, partner, top, own) {
    const length = top ? (100 * Math.abs(partner.value)) / top : 0;
    return make("li", { class: own ? "own" : null, "aria-current": own ? "true" : null },
      make("bdi", { text: fitted(partner.item.t, 110, 12), title: visible(partner.item.t) }),
      make("span", { class: "at", text: partner.item.i }),
      make("span", { class: partner.value < 0 ? "bar below" : "bar", "aria-hidden": "true" },
        make("i", { style: `width:${length.toFixed(1)}%` })),
      make("span", { class: "number", text: shownValue(sheet, partner) }));
  }
  return { node, show };
}

/** "“saw” (3) → “Mary” (4): 0.301234" */
function ownInWords(sheet, pin, own) {
  const pair = `${quoted(sheet.rows[pin.i])} → ${quoted(sheet.columns[pin.j])}: `;
  if (!own) return `${pair}masked`;
  return pair + shownValue(sheet, own) + (own.sure ? "" : ` ± ${plainly(Number(sheet.step.toPrecision(1)))}`);
}
