// The browser as a Streamlit component. Overviews arrive as new data; so do responses if there is
// no carrier (carrier.js).

const mounted = new WeakMap(); // by the component's shadow root
const KEPT = 2000; // ms until a removed component is discarded

/** Called by Streamlit for each new message; returns the clean-up function. */
export default function attention(component) {
  const { parentElement: place } = component;
  if (!mounted.has(place)) mounted.set(place, mount(place));
  const here = mounted.get(place);
  here.trigger = (request) => component.setTriggerValue("ask", request);
  here.calls += 1;
  const call = here.calls;
  if (component.data) here.read(component.data);
  return () => setTimeout(() => {
    if (here.calls !== call) return; // called again meanwhile: still in use
    here.end();
    mounted.delete(place);
  }, KEPT);
}

function mount(place) {
  const root = make("div", { class: "attention" });
  place.append(root);
  const pending = new Map();
  let shown = null;
  let starting = 0;
  const here = { calls: 0, trigger: null };
  let reading = Promise.resolve(); // messages are read in order

  here.read = (data) => {
    reading = reading.then(() => unpacked(data)).then(here.take).catch(console.error);
  };

  /** Sends through the carrier, which may be mounted later; else through the component itself. */
  here.send = (request) => {
    if (!here.line) return here.trigger(request);
    here.line.waiting = here.line.send ? null : request;
    here.line.send?.(request);
  };
  const host = {
    ask: (request) => new Promise((answer) => {
      pending.clear(); // one request is in flight at a time
      pending.set(request.id, answer);
      here.send(request);
    }),
  };

  here.take = (message) => {
    if (message.carried) {
      here.line = window.workbenchAttention ||= {};
      here.line.take = here.read;
    }
    if (message.kind !== "overview") {
      pending.get(message.id)?.(message);
      pending.delete(message.id);
      if (!shown) start(3);
    } else if (shown) shown.update(message);
    else shown = attentionBrowser(root, host, message);
  };

  /** Requests the overview: this component was mounted again, and its first message was another. */
  function start(times) {
    clearTimeout(starting);
    if (shown || !times) return;
    here.send({ id: Math.floor(Math.random() * 1e9), view: "", what: "overview", state: null });
    starting = setTimeout(() => start(times - 1), PATIENCE);
  }

  here.end = () => {
    if (here.line?.take === here.read) here.line.take = null;
    clearTimeout(starting);
    shown?.close();
    root.remove();
  };
  return here;
}
