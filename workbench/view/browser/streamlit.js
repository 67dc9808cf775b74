// The browser as a Streamlit component: requests leave as triggers, answers come as new data.

const mounted = new WeakMap(); // the component's shadow root to what is shown in it
const KEPT = 2000; // ms a component that was cleared away may take to come back

/** Called by Streamlit for each new message; gives back what clears up. */
export default function attention(component) {
  const { parentElement: place } = component;
  if (!mounted.has(place)) mounted.set(place, mount(place));
  const here = mounted.get(place);
  here.send = (request) => component.setTriggerValue("ask", request);
  here.calls += 1;
  const call = here.calls;
  if (component.data) here.read = here.read.then(() => unpacked(component.data)).then(here.take).catch(console.error);
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
  const here = { calls: 0, send: null, read: Promise.resolve() };
  const host = {
    ask: (request) => new Promise((answer) => {
      asked.clear(); // one request is in flight at a time
      asked.set(request.id, answer);
      here.send(request);
    }),
  };

  here.take = (message) => {
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
    clearTimeout(starting);
    shown?.close();
    root.remove();
  };
  return here;
}
