// Reading what frame.py framed: a head of JSON, then arrays, some of them packed by zlib.

const KINDS = { u1: Uint8Array, f4: Float32Array };

/** The head with `arrays`: name to {data, shape}. */
async function unpacked(bytes) {
  bytes = bytes instanceof Uint8Array ? bytes : new Uint8Array(bytes);
  const length = new DataView(bytes.buffer, bytes.byteOffset, 4).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)));
  const arrays = {};
  for (const [name, told] of Object.entries(head.arrays || {})) {
    const at = 4 + length + told.at;
    const part = bytes.slice(at, at + told.size); // a copy, so that floats lie where they must
    const raw = told.packed ? await inflated(part) : part.buffer;
    arrays[name] = { data: new KINDS[told.type](raw), shape: told.shape };
  }
  return { ...head, arrays };
}

function inflated(part) {
  const stream = new Blob([part]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}
