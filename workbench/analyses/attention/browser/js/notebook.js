// The browser in an output of a notebook, in a shadow root of its own. Its responses are stored in the
// output; while the kernel listens (line.js), they come from the kernel.

async function notebookBrowser(id, css, stored, missing) {
  const place = document.getElementById(id);
  if (!place) return;
  const root = make("div", { class: "attention" });
  const shadow = place.shadowRoot || place.attachShadow({ mode: "open" });
  shadow.replaceChildren(make("style", { text: css }), root);
  const memory = storedHost(stored, missing);
  const line = ((window.workbenchLines ||= {})[id] ||= {});
  const pending = new Map();
  const host = {
    ask: (request) => (line.send ? new Promise((answer) => {
      pending.clear(); // one request is in flight at a time
      pending.set(request.id, answer);
      line.send(request);
    }) : memory.ask(request)),
  };
  const frame = window.frameElement; // marimo gives the output a frame of its own, 400 pixels high
  if (frame && place.parentElement === document.body) {
    const below = () => root.getBoundingClientRect().bottom + window.scrollY + 24;
    new ResizeObserver(() => { frame.style.height = `${below()}px`; }).observe(root);
  }
  const first = await memory.ask({ what: "overview" });
  const shown = attentionBrowser(root, host, { ...first, offline: true });
  const take = (message) => {
    if (message.kind === "overview") return shown.update(message);
    pending.get(message.id)?.(message);
    return pending.delete(message.id);
  };
  let reading = Promise.resolve(); // messages are read in order
  line.take = (data) => {
    reading = reading.then(() => unpacked(data)).then(take).catch(console.error);
  };
  line.opened = () => line.send?.({ id: 0, view: first.view, what: "overview", state: null });
  line.opened();
}
