// The pinned cell: its exact value, the largest values of its row or column, query and key.

const PARTNERS = 12;

/** The panel next to the maps; `show` takes the sheets and the response with exact values, if any. */
function pinView(browser) {
  const heading = make("h4");
  const axis = segmentOf("Pinned", [["row", "Row"], ["column", "Column"]], () => browser.state.pin?.axis,
    (to) => browser.change({ pin: { ...browser.state.pin, axis: to } }));
  const alike = buttonOf("Find similar", () => browser.findSimilar(),
    { title: "Sentences of the corpus where this head attends most strongly between words with the same two tags" });
  const edit = buttonOf("Edit word", () => browser.edit(pinnedWord()), { title: "Edit, hide, delete or swap this word" });
  const neurons = buttonOf("Query and key", () => browser.toggleNeurons(), { "aria-pressed": "false" });
  const why = make("p", { class: "quiet" });
  const tools = make("div", { class: "tools" }, axis.node,
    buttonOf("Unpin", () => browser.change({ pin: null })), neurons, edit, alike);
  const lists = make("div", { class: "lists" });
  const hint = make("p", { class: "quiet", text: "Click a token or a cell to pin it and see its values." });
  const node = make("aside", { class: "pinned", "aria-label": "pinned cell" }, hint, heading, tools, lists, why);

  function pinnedWord() {
    const { pin } = browser.state;
    const [side] = browser.message.sides;
    return (pin.axis === "row" ? side.rows[pin.i] : side.columns[pin.j])?.word ?? -1;
  }

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
    neurons.setAttribute("aria-pressed", browser.state.look === "query");
    const { pin: { i, j } } = browser.state;
    const [side] = browser.message.sides;
    edit.hidden = offline || !side.editable || pinnedWord() < 0;
    alike.hidden = offline || !browser.message.similar || !side.editable || (side.rows[i]?.word ?? -1) < 0 || (side.columns[j]?.word ?? -1) < 0;
    why.hidden = can;
    why.textContent = can ? "" : available === true ? "Query and key are not stored in this file." : available;
    lists.replaceChildren(...pinned.map((sheet) => partnerList(sheet, sheets.length > 1)));

    function partnerList(sheet, named) {
      const all = partners(sheet, pin, exact);
      const own = all.find(({ i, j }) => i === pin.i && j === pin.j);
      const most = [...all].sort((one, other) => Math.abs(other.value) - Math.abs(one.value));
      const top = Math.abs(most[0]?.value ?? 0);
      return make("section", {}, named ? make("h5", { text: sheet.name }) : null,
        make("p", { class: "exact", text: ownInWords(sheet, pin, own), "data-value": own?.sure ? own.value.toPrecision(7) : null,
          title: own?.sure ? own.value.toPrecision(7) : null }),
        make("ol", { class: "bars" }, ...most.slice(0, PARTNERS).map((partner) => bar(sheet, partner, top, partner === own))));
    }
  }

  function bar(sheet, partner, top, own) {
    const length = top ? (100 * Math.abs(partner.value)) / top : 0;
    return make("li", { class: own ? "own" : null, "aria-current": own ? "true" : null },
      make("bdi", { text: fitted(partner.item.t, 110), title: visible(partner.item.t) }),
      make("span", { class: "at", text: partner.item.i }),
      make("span", { class: partner.value < 0 ? "bar below" : "bar", "aria-hidden": "true" },
        make("i", { style: `width:${length.toFixed(1)}%` })),
      make("span", { class: "number", text: shownValue(sheet, partner), "data-value": partner.sure ? partner.value.toPrecision(7) : null }));
  }
  return { node, show };
}

/** "“saw” (3) → “Mary” (4): 0.301" */
function ownInWords(sheet, pin, own) {
  const pair = `${quoted(sheet.rows[pin.i])} → ${quoted(sheet.columns[pin.j])}: `;
  if (!own) return `${pair}masked`;
  return pair + shownValue(sheet, own) + (own.sure ? "" : ` ± ${plainly(Number(sheet.step.toPrecision(1)))}`);
}
