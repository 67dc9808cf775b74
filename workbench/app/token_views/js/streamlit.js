// The views as a Streamlit component: data is a JSON object, a choice is a trigger.

const mounted = new WeakMap(); // by the component's shadow root
const KEPT = 2000; // ms until a removed component is discarded

/** Called by Streamlit for each new message; returns the clean-up function. */
export default function tokens(component) {
  const { parentElement: place } = component;
  if (!mounted.has(place)) {
    const root = make("div", { class: "tokens" });
    place.append(root);
    const here = { root, calls: 0, trigger: null };
    here.views = tokenViews(root, (chosen) => here.trigger(chosen));
    mounted.set(place, here);
  }
  const here = mounted.get(place);
  let number = Date.now();
  here.trigger = (chosen) => component.setTriggerValue("pick", { ...chosen, n: (number += 1) });
  here.calls += 1;
  const call = here.calls;
  if (component.data) here.views.update(component.data);
  return () => setTimeout(() => {
    if (here.calls !== call) return; // called again meanwhile: still in use
    here.views.close();
    here.root.remove();
    mounted.delete(place);
  }, KEPT);
}
