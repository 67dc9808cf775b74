// Carries messages between the browser of an output (notebook.js) and the kernel: a widget that shows
// nothing.

export default {
  render({ model, el }) {
    el.style.display = "none";
    const line = ((window.workbenchLines ||= {})[model.get("place")] ||= {});
    const send = (request) => model.send(request);
    const take = (content, [part]) => {
      line.take?.(new Uint8Array(part.buffer, part.byteOffset, part.byteLength));
    };
    model.on("msg:custom", take);
    line.send = send;
    line.opened?.();
    return () => {
      model.off("msg:custom", take);
      if (line.send === send) line.send = null;
    };
  },
};
