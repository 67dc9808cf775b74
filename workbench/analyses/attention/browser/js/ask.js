// Requests to the host: one in flight, the newest of a kind counts, a lost one is sent again.

const URGENT = ["overview", "edit", "show", "cell", "exact", "neurons", "predict", "similar", "file", "state"];
const PATIENCE = 3000; // ms without a response until a request is sent again
const RETRIES = 3;
const SLOW = { file: 10, similar: 10, predict: 5, edit: 5, show: 5 }; // factor: a file may take longer

/**
 * `context()` gives the current view and state. `ask` resolves to a response, to null if a newer
 * request replaced this one, or to {kind: "lost"} if there was no response.
 */
function requester(host, context) {
  const waiting = new Map();
  let flying = null;
  let count = Math.floor(Math.random() * 1e9);

  function ask(slot, request) {
    waiting.get(slot)?.answer(null);
    if (flying?.slot === slot) flying.old = true;
    return new Promise((answer) => {
      waiting.set(slot, { slot, request, answer, old: false });
      next();
    });
  }

  async function next() {
    const slot = URGENT.find((name) => waiting.has(name));
    if (flying || !slot) return;
    const mine = waiting.get(slot);
    waiting.delete(slot);
    flying = mine;
    const answer = await sent(mine);
    if (flying !== mine) return; // all requests were dropped meanwhile
    flying = null;
    mine.answer(answer);
    next();
  }

  async function sent(mine) {
    const request = { id: (count += 1), ...context(), ...mine.request };
    const patience = (host.patience || PATIENCE) * (SLOW[mine.slot] || 1);
    const tries = [];
    for (let time = 0; time <= RETRIES; time += 1) {
      if (flying !== mine || (time && mine.old)) return null;
      tries.push(host.ask(request));
      const answer = await Promise.race([...tries, pause(patience)]);
      if (answer) return answer;
    }
    return { kind: "lost" };
  }

  function drop() {
    waiting.forEach((entry) => entry.answer(null));
    waiting.clear();
    flying?.answer(null);
    flying = null;
  }

  return { ask, drop };
}

function pause(time) {
  return new Promise((go) => setTimeout(go, time, null));
}

/** A map of limited size that drops the least recently used entry. */
function limitedCache(most) {
  const kept = new Map();
  return {
    get(key) {
      const value = kept.get(key);
      if (value !== undefined) kept.delete(key), kept.set(key, value);
      return value;
    },
    set(key, value) {
      kept.delete(key);
      kept.set(key, value);
      if (kept.size > most) kept.delete(kept.keys().next().value);
    },
    clear: () => kept.clear(),
  };
}
