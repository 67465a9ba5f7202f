// One event stream for all tabs of a browser. It runs in a SharedWorker.
//
// A browser opens about six connections to a server without HTTP/2, and each event stream takes one of them for as long as
// it is open. So the tabs share a stream for each address, and every tab gets every event. A tab ignores what it has already.

/** How often the tabs are asked whether they are there, in milliseconds, and how many of these questions a tab may miss. */
const ASK_MS = 5000;
const MISSED_MAX = 2;

/** The open streams by address. */
const streams = new Map();

/** The questions that each tab has not answered. */
const missed = new WeakMap();

/** The events of one address, for the tabs that follow it. */
class Stream {
  constructor(address, names) {
    this.address = address;
    this.names = names;
    this.tabs = new Set();
    this.source = null;
    // The record that came last.
    this.last = 0;
  }

  /** Adds a tab that has everything up to this record. A tab that lacks older records makes the stream begin earlier. */
  add(tab, after) {
    this.tabs.add(tab);
    if (!this.source || after < this.last) this.open(after);
    else if (this.source.readyState === EventSource.OPEN) tab.postMessage({ type: "open" });
  }

  open(after) {
    this.source?.close();
    this.last = after;
    const url = new URL(this.address);
    url.searchParams.set("after", after);
    const source = new EventSource(url);
    this.source = source;
    source.onopen = () => this.tell({ type: "open" });
    source.onerror = () => this.end({ type: "lost" });
    for (const name of this.names) {
      source.addEventListener(name, ({ data, lastEventId }) => {
        this.last = Math.max(this.last, Number(lastEventId));
        this.tell({ type: "event", name, data, seq: Number(lastEventId) });
      });
    }
    // What the tabs know may be wrong, so they load everything anew and follow again.
    source.addEventListener("reset", () => this.end({ type: "reset" }));
  }

  tell(message) {
    for (const tab of this.tabs) tab.postMessage(message);
  }

  end(message) {
    this.close();
    this.tell(message);
    this.tabs.clear();
  }

  close() {
    this.source?.close();
    streams.delete(this.address);
  }

  remove(tab) {
    if (this.tabs.delete(tab) && !this.tabs.size) this.close();
  }
}

function leave(tab, except) {
  for (const stream of streams.values()) if (stream.address !== except) stream.remove(tab);
}

// A tab that was closed, has crashed or is put aside says nothing. Without it the stream would stay open for no tab.
setInterval(() => {
  for (const stream of [...streams.values()]) {
    for (const tab of [...stream.tabs]) {
      const count = missed.get(tab) ?? 0;
      missed.set(tab, count + 1);
      if (count < MISSED_MAX) tab.postMessage({ type: "there?" });
      else stream.remove(tab);
    }
  }
}, ASK_MS);

addEventListener("connect", ({ ports: [tab] }) => {
  tab.onclose = () => leave(tab);
  tab.onmessage = ({ data: { isThere, address, names, after } }) => {
    missed.set(tab, 0);
    if (isThere) {
      // It was away for so long that it missed events.
      if (![...streams.values()].some((stream) => stream.tabs.has(tab))) tab.postMessage({ type: "lost" });
      return;
    }
    // A tab follows one stream. Without an address it leaves.
    leave(tab, address);
    if (!address) return;
    if (!streams.has(address)) streams.set(address, new Stream(address, names));
    streams.get(address).add(tab, after);
  };
  tab.postMessage({ type: "ready" });
});
