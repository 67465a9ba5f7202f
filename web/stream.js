// The event stream of this page: shared with the other tabs of the browser, or its own where they cannot share one.

/** How long the worker of the shared stream may take to start, in milliseconds. Then this page opens its own stream. */
const START_MS = 3000;

let port = null;
let isReady = false;
let hasFailed = !globalThis.SharedWorker;
let current = null;

/** Connects to the worker that all tabs share. Called early, so that it starts while the page loads its lists. */
export function startWorker() {
  if (port || hasFailed) return;
  try {
    const worker = new SharedWorker(new URL("./worker.js", import.meta.url), { name: "git-dibs events" });
    worker.onerror = fail;
    port = worker.port;
  } catch {
    return fail();
  }
  port.onmessage = ({ data }) => {
    if (data.type === "ready") isReady = true;
    else current?.(data);
  };
  setTimeout(() => isReady || fail(), START_MS);
  addEventListener("pagehide", () => port?.postMessage({}));
  return undefined;
}

/** No worker: a stream that waits for it is opened by this page. */
function fail() {
  hasFailed = true;
  port?.close();
  port = null;
  current?.({ type: "no worker" });
}

/**
 * Follows the events of an address after a record. `on` has the functions `open`, `lost`, `reset`, and `event`, which gets
 * the name of an event and its data; an event that is part of what the page knows already is left out. Returns how to stop.
 */
export function followEvents(address, names, after, on) {
  let last = after;
  let source = null;
  const take = ({ type, name, data, seq }) => {
    if (type === "no worker") source = openOwn(address, names, last, take);
    else if (type !== "event") on[type]();
    else if (name === "live") on.event(name, data);
    else if (seq > last) {
      last = seq;
      on.event(name, data);
    }
  };
  current = take;
  startWorker();
  if (port) port.postMessage({ address: address.href, names, after });
  else take({ type: "no worker" });
  return () => {
    source?.close();
    if (current !== take) return;
    current = null;
    port?.postMessage({});
  };
}

function openOwn(address, names, after, take) {
  const url = new URL(address);
  url.searchParams.set("after", after);
  const source = new EventSource(url);
  source.onopen = () => take({ type: "open" });
  source.onerror = () => {
    source.close();
    take({ type: "lost" });
  };
  for (const name of names) source.addEventListener(name, ({ data, lastEventId }) => take({ type: "event", name, data, seq: Number(lastEventId) }));
  source.addEventListener("reset", () => {
    source.close();
    take({ type: "reset" });
  });
  return source;
}
