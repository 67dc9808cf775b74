// Responses that are stored in a page: [[kind, row, column, message in base64], …].

/** A host that answers from stored messages; `missing` is said of a head that is not among them. */
function storedHost(stored, missing) {
  const keyOf = (kind, row, column) => [kind, row ?? "", column ?? ""].join(",");
  const byName = new Map(stored.map(([kind, row, column, text]) => [keyOf(kind, row, column), text]));
  return {
    async ask(request) {
      const text = byName.get(keyOf(request.what, request.row, request.column));
      if (!text) return { kind: "problem", id: request.id, text: missing };
      return unpacked(Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0)));
    },
  };
}
