// One event stream for all tabs of a browser. It runs in a SharedWorker.
//
// A browser opens about six connections to a server without HTTP/2, and each event stream takes one of them for as long as
// it is open. So the tabs share a stream for each address, and every tab gets every event. A tab ignores what it has already.
//
// A browser that keeps the last page for its Back button also keeps this worker, stopped and with its stream open, until it
// forgets the page after some minutes.

/** The open streams by address. */
const streams = new Map();

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

addEventListener("connect", ({ ports: [tab] }) => {
  // A tab that is closed or has crashed says nothing more.
  tab.onclose = () => leave(tab);
  tab.onmessage = ({ data: { address, names, after } }) => {
    // A tab follows one stream. Without an address it leaves.
    leave(tab, address);
    if (!address) return;
    if (!streams.has(address)) streams.set(address, new Stream(address, names));
    streams.get(address).add(tab, after);
  };
  tab.postMessage({ type: "ready" });
});
