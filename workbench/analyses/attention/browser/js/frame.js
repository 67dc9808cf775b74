// Reads a message of frames.py: a JSON head, then arrays, some of them compressed by zlib.

const KINDS = { u1: Uint8Array, f4: Float32Array };

/** The head with `arrays`: name to {data, shape}. */
async function unpacked(bytes) {
  bytes = bytes instanceof Uint8Array ? bytes : new Uint8Array(bytes);
  const length = new DataView(bytes.buffer, bytes.byteOffset, 4).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)));
  const arrays = {};
  for (const [name, header] of Object.entries(head.arrays || {})) {
    const at = 4 + length + header.at;
    const part = bytes.slice(at, at + header.size); // a copy, so that floats are aligned
    const raw = header.packed ? await inflated(part) : part.buffer;
    arrays[name] = { data: new KINDS[header.type](raw), shape: header.shape };
  }
  return { ...head, arrays };
}

function inflated(part) {
  const stream = new Blob([part]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}
