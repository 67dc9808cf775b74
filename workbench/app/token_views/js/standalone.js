// The views in a stand-alone file: one can look at them and walk over them, but not change them.

for (const block of document.querySelectorAll("script[type='application/json']")) {
  const root = make("div", { class: "tokens" });
  block.after(root);
  tokenViews(root, () => {}).update(JSON.parse(block.textContent));
}
