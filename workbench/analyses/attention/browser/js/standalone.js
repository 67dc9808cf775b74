// The browser in a stand-alone file: all responses are stored in the page.

(async () => {
  const blocks = [...document.querySelectorAll("script[type='application/octet-stream']")];
  const bytes = (block) => Uint8Array.from(atob(block.textContent.trim()), (sign) => sign.charCodeAt(0));
  const keyOf = (block) => [block.dataset.kind, block.dataset.row, block.dataset.column].join(",");
  const byName = new Map(blocks.map((block) => [keyOf(block), block]));
  const missing = "This head is not stored in the file. Open it in the app and save the page again.";
  const host = {
    async ask(request) {
      const block = byName.get(`${request.what},${request.row},${request.column}`);
      return block ? unpacked(bytes(block)) : { kind: "problem", id: request.id, text: missing };
    },
  };
  const message = await unpacked(bytes(blocks.find((block) => block.dataset.kind === "overview")));
  attentionBrowser(document.getElementById("attention"), host, { ...message, offline: true });
})();
