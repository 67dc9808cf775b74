// The browser as a Streamlit component. Its overviews come as new data; so do answers, where no
// carrier (carrier.js) brings them.

const mounted = new WeakMap(); // the component's shadow root to what is shown in it
const KEPT = 2000; // ms a component that was cleared away may take to come back

/** Called by Streamlit for each new message; gives back what clears up. */
export default function attention(component) {
  const { parentElement: place } = component;
  if (!mounted.has(place)) mounted.set(place, mount(place));
  const here = mounted.get(place);
  here.trigger = (request) => component.setTriggerValue("ask", request);
  here.calls += 1;
  const call = here.calls;
  if (component.data) here.read(component.data);
  return () => setTimeout(() => {
    if (here.calls !== call) return; // called again meanwhile: it is still in use
    here.end();
    mounted.delete(place);
  }, KEPT);
}

function mount(place) {
  const root = make("div", { class: "attention" });
  place.append(root);
  const asked = new Map();
  let shown = null;
  let starting = 0;
  const here = { calls: 0, trigger: null };
  let reading = Promise.resolve(); // messages are taken in the order they came

  here.read = (data) => {
    reading = reading.then(() => unpacked(data)).then(here.take).catch(console.error);
  };

  /** Through the carrier, which may be mounted a moment later; else by the component itself. */
  here.send = (request) => {
    if (!here.line) return here.trigger(request);
    here.line.waiting = here.line.send ? null : request;
    here.line.send?.(request);
  };
  const host = {
    ask: (request) => new Promise((answer) => {
      asked.clear(); // one request is in flight at a time
      asked.set(request.id, answer);
      here.send(request);
    }),
  };

  here.take = (message) => {
    if (message.carried) {
      here.line = window.workbenchAttention ||= {};
      here.line.take = here.read;
    }
    if (message.kind !== "overview") {
      asked.get(message.id)?.(message);
      asked.delete(message.id);
      if (!shown) start(3);
    } else if (shown) shown.update(message);
    else shown = attentionBrowser(root, host, message);
  };

  /** This component was mounted anew, and what came first was no overview. */
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
