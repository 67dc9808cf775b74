// The browser in a stand-alone file: all responses are stored in the page.

(async () => {
  const blocks = [...document.querySelectorAll("script[type='application/octet-stream']")];
  const stored = blocks.map(({ dataset, textContent }) => [dataset.kind, dataset.row, dataset.column, textContent.trim()]);
  const host = storedHost(stored, "This head is not stored in the file. Open it in the app and save the page again.");
  const message = await host.ask({ what: "overview" });
  attentionBrowser(document.getElementById("attention"), host, { ...message, offline: true });
})();
