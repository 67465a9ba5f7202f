// Everything that is held now, as a tree or a table. Only the rows near the visible part are in the page.

import { html, useEffect, useLayoutEffect, useRef, useState } from "./htm-preact.js";
import { act } from "./api.js";
import { asksFor, held, isSoon, listNames, nameOf, pauses, sessionState, tableRows, treeRows, waitsBehind, withProblem } from "./derive.js";
import { openDialog, waysToOpen } from "./actions.js";
import { shown } from "./keys.js";
import { Bar, Chip, Command, Copy, Icon, Key, Left, Name, attempt, plural, timeKind } from "./parts.js";
import { param, setParams } from "./route.js";
import { mayAnimate, moved, useMotion, useSteadyRows } from "./steady.js";
import { set, store } from "./store.js";
import { duration, left } from "./time.js";

/** Heights of rows, as in views.css: wide and narrow. */
const HEIGHTS = { wide: { held: 32, dir: 32, group: 40, problem: 32 }, narrow: { held: 60, dir: 36, group: 44, problem: 32 } };
const NARROW = matchMedia("(max-width: 860px)");
/** How far beyond the visible part rows are kept in the page, in pixels. */
const MARGIN = 400;

export function Now() {
  const query = param("q");
  const kind = param("kind") || "all";
  const isTable = param("as") === "table";
  const { list, counts } = held(store.data, query, kind);
  const fresh = isTable ? tableRows(list, param("sort") || "time") : treeRows(list, store.closed);
  const steady = useSteadyRows(fresh, `${query}\n${kind}\n${isTable}\n${param("sort")}\n${store.repo}`);
  const rows = withProblem(steady, store.problem);
  const isEmpty = store.data.order.length === 0;
  return html`
    <main class="now">
      <h1 class="sr" tabindex="-1">${isEmpty ? "Nothing is held" : `${plural(counts.all, "reservation")} held now`}</h1>
      ${isEmpty && !query ? html`<${Nothing} />` : html`
        <${Toolbar} query=${query} kind=${kind} counts=${counts} isTable=${isTable} />
        ${rows.length ? html`<${Rows} rows=${rows} isTable=${isTable} />` : html`<${NoMatch} query=${query} />`}`}
    </main>`;
}


function Toolbar({ query, kind, counts, isTable }) {
  const kinds = [["all", "All"], ["path", "Paths"], ["name", "Names"], ["uri", "URIs"]];
  return html`
    <div class="toolbar">
      <label class="filter"><${Icon} name="search" /><span class="sr">Filter by path, session, feature or kind</span>
        <input type="search" id="filter" placeholder="Path, session:bo, feature:FEAT-118" value=${query} autocomplete="off" spellcheck="false" onInput=${(event) => setParams({ q: event.target.value })} /><kbd aria-hidden="true">/</kbd></label>
      <div class="kinds" role="group" aria-label="Kind">
        ${kinds.map(([name, text]) => html`<button type="button" key=${name} aria-pressed=${kind === name} onClick=${() => setParams({ kind: name === "all" ? "" : name })}>${text} <span>${counts[name].toLocaleString("en")}</span></button>`)}
      </div>
      <span class="space"></span>
      <${Copy} kind="quiet copy-link" text=${() => location.href}><${Icon} name="link" />Copy link</${Copy}>
      <div class="choice" role="group" aria-label="Show as">
        <button type="button" aria-pressed=${!isTable} onClick=${() => setParams({ as: "" })}><${Icon} name="tree" />Tree</button>
        <button type="button" aria-pressed=${isTable} onClick=${() => setParams({ as: "table" })}><${Icon} name="table" />Table</button>
      </div>
    </div>`;
}

const Nothing = () => html`
  <div class="empty">
    <${Icon} name="free" size=${48} kind="large" />
    <p class="huge" aria-hidden="true">Nothing is held</p>
    <p class="lead soft">Anyone can change any file. Start an agent with its own session; what it reserves appears here within a second.</p>
    <div class="steps">
      <div><p>Start an agent</p><${Command} text="git dibs run --name Ana -- your-agent" /></div>
      <div><p>Or reserve something yourself</p><${Command} text='git dibs reserve src/parser/ --reason "splitting it"' /></div>
      <div><p>Install the git hooks, so that commits are checked</p><${Command} text="git dibs install" /></div>
    </div>
  </div>`;

const NoMatch = ({ query }) => html`
  <div class="empty small-empty"><p class="big">Nothing held matches “<bdi>${query}</bdi>”</p>
    <button type="button" class="button" onClick=${() => setParams({ q: "", kind: "" })}>Clear the filter</button></div>`;

/** A table of which only a part is in the page. Its rows tell their numbers, so nothing is lost for screen readers. */
function Rows({ rows, isTable }) {
  const body = useRef(null);
  const [, redraw] = useState(0);
  useEffect(() => {
    const update = () => redraw((n) => n + 1);
    const events = [[window, "scroll"], [window, "resize"], [NARROW, "change"]];
    events.forEach(([target, name]) => target.addEventListener(name, update, { passive: true }));
    return () => events.forEach(([target, name]) => target.removeEventListener(name, update));
  }, []);
  const heights = NARROW.matches ? HEIGHTS.narrow : HEIGHTS.wide;
  const [problemHeight, setProblemHeight] = useState(heights.problem);
  const starts = offsets(rows, heights, problemHeight);
  const top = body.current ? -body.current.getBoundingClientRect().top : 0;
  const first = Math.max(0, lowerBound(starts, top - MARGIN) - 1);
  const last = Math.min(rows.length, lowerBound(starts, top + innerHeight + MARGIN) + 1);
  useKeptFocus(rows, starts, body);
  useMotion(rows, starts, `${param("q")}\n${param("kind")}\n${isTable}\n${param("sort")}`);
  const selected = param("id");
  return html`
    <table class="rows" role="table" aria-rowcount=${rows.length + 1} aria-label="Held now" onPointerMove=${moved} onKeyDown=${(event) => onKey(event, rows)}>
      <thead role="rowgroup"><tr role="row" aria-rowindex="1">
        <th role="columnheader" class="c-lock"><span class="sr">Lock</span></th>
        <th role="columnheader" class="c-key"><${Sort} name="path" isTable=${isTable}>Path</${Sort}></th>
        <th role="columnheader" class="c-holder">Holder</th><th role="columnheader" class="c-reason">Reason</th>
        <th role="columnheader" class="c-waiting">Waiting behind it</th>
        <th role="columnheader" class="c-time"><${Sort} name="time" isTable=${isTable}>Time left</${Sort}></th></tr></thead>
      <tbody role="rowgroup" ref=${body} id="rows">
        <${Space} height=${starts[first]} />
        ${rows.slice(first, last).map((row, n) => html`<${Row} key=${row.id} row=${row} index=${first + n + 2} isSelected=${row.one && row.one.id === selected} isFirst=${first + n === 0} setProblemHeight=${setProblemHeight} />`)}
        <${Space} height=${starts[rows.length] - starts[last]} />
      </tbody>
    </table>`;
}

function Sort({ name, isTable, children }) {
  if (!isTable) return children;
  const isOn = (param("sort") || "time") === name;
  return html`<button type="button" aria-pressed=${isOn} onClick=${() => setParams({ sort: name === "time" ? "" : name })}>${children}</button>`;
}

function Space({ height }) {
  const element = useRef(null);
  useLayoutEffect(() => element.current.style.setProperty("height", `${height}px`), [height]);
  return html`<tr class="space-row" aria-hidden="true" role="presentation"><td ref=${element}></td></tr>`;
}

let known = { rows: null, heights: null, problemHeight: 0, starts: null };

/** Where each row begins, and where the last one ends. The sentence of a refusal is as high as it has lines. */
function offsets(rows, heights, problemHeight) {
  if (known.rows === rows && known.heights === heights && known.problemHeight === problemHeight) return known.starts;
  const starts = new Float64Array(rows.length + 1);
  rows.forEach((row, n) => {
    starts[n + 1] = starts[n] + (row.type === "problem" ? problemHeight : heights[row.type]);
  });
  known = { rows, heights, problemHeight, starts };
  return starts;
}

function lowerBound(starts, value) {
  let [low, high] = [0, starts.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (starts[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** When the focused row was released, the row in its place gets the focus; a row that scrolled away keeps it in mind. */
function useKeptFocus(rows, starts, body) {
  const place = useRef(-1);
  useLayoutEffect(() => {
    if (!store.focus) return;
    const at = rows.findIndex((row) => row.id === store.focus);
    if (at >= 0) {
      place.current = at;
      // Its padlock went with its reservation, and had the focus.
      if (rows[at].isGone && document.activeElement === document.body) document.getElementById(`row-${store.focus}`)?.focus({ preventScroll: true });
    } else if (place.current >= 0 && rows.length) {
      const next = rows[Math.min(place.current, rows.length - 1)];
      set({ focus: next.id });
      if (document.activeElement === document.body) focusRow(rows, rows.indexOf(next), starts, body.current);
    }
  });
}

function focusRow(rows, at, starts, body) {
  const row = rows[at];
  if (!row) return;
  set({ focus: row.id });
  const find = () => document.getElementById(`row-${row.id}`);
  if (!find() && body) scrollTo({ top: scrollY + body.getBoundingClientRect().top + starts[at] - innerHeight / 2 });
  // Two frames: one until the rows are drawn, one until they are in the page.
  const focus = (n) => {
    const element = find();
    if (element) {
      element.focus({ preventScroll: true });
      element.scrollIntoView({ block: "nearest" });
    } else if (n) requestAnimationFrame(() => focus(n - 1));
  };
  focus(5);
}

/** Keys within the table. */
function onKey(event, rows) {
  moved();
  if (event.target.closest("input, textarea, button") && event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
  const at = rows.findIndex((row) => row.id === store.focus);
  const row = rows[at];
  const go = (to) => {
    event.preventDefault();
    focusRow(rows, Math.max(0, Math.min(rows.length - 1, to)), known.starts, document.getElementById("rows"));
  };
  const step = (by) => {
    let to = at + by;
    while (rows[to]?.type === "group" || rows[to]?.type === "problem") to += by;
    go(rows[to] ? to : at);
  };
  switch (event.key) {
    case "ArrowDown": return step(1);
    case "ArrowUp": return step(-1);
    case "Home": return go(0);
    case "End": return go(rows.length - 1);
    case "PageDown": return go(at + 20);
    case "PageUp": return go(at - 20);
    case "ArrowRight": return row?.type === "dir" && !row.isOpen ? toggle(event, row) : undefined;
    case "ArrowLeft":
      if (row?.type === "dir" && row.isOpen) return toggle(event, row);
      for (let n = at - 1; n >= 0; n -= 1) if (rows[n].type === "dir" && rows[n].depth < (row?.depth ?? 0)) return go(n);
      return undefined;
    case "Enter":
      event.preventDefault();
      return row?.type === "dir" ? toggle(event, row) : row?.one && setParams({ id: row.one.id }, { push: true });
    case " ":
      event.preventDefault();
      return row?.one && document.getElementById(`row-${row.id}`)?.querySelector(".lock")?.click();
    default: return undefined;
  }
}

function toggle(event, row) {
  event?.preventDefault();
  const closed = new Set(store.closed);
  if (row.isOpen) closed.add(row.path);
  else closed.delete(row.path);
  set({ closed, focus: row.id });
}

/** The server's sentence, under the row that caused it. */
function ProblemRow({ row, common, setProblemHeight }) {
  useLayoutEffect(() => setProblemHeight(common.ref.current.offsetHeight));
  return html`<tr ...${common} class="problem-row" tabindex="-1"><td role="cell" colspan="6"><p class="problem" role="alert">${row.sentence}</p></td></tr>`;
}

function Row({ row, index, isSelected, isFirst, setProblemHeight }) {
  const element = useRef(null);
  useLayoutEffect(() => element.current?.style.setProperty("--depth", row.depth ?? 0), [row.depth]);
  const isFocus = store.focus === row.id || (!store.focus && isFirst);
  const common = { ref: element, id: `row-${row.id}`, role: "row", "aria-rowindex": index, tabindex: isFocus ? 0 : -1, onfocusin: () => store.focus !== row.id && set({ focus: row.id }) };
  if (row.type === "problem") return html`<${ProblemRow} row=${row} common=${{ ...common, onfocusin: undefined }} setProblemHeight=${setProblemHeight} />`;
  if (row.type === "group") return html`<tr ...${common} class="group" tabindex="-1"><td role="cell" class="c-lock"></td><td role="cell" class="c-key">Names and resources <span>${row.count.toLocaleString("en")}</span></td><td role="cell" class="c-holder"></td><td role="cell" class="c-reason"></td><td role="cell" class="c-waiting"></td><td role="cell" class="c-time"></td></tr>`;
  if (row.type === "dir") return html`<${Directory} row=${row} common=${common} />`;
  return html`<${Held} row=${row} common=${common} isSelected=${isSelected} />`;
}

function Directory({ row, common }) {
  const stop = row.isOpen ? null : pauseIn(row);
  const text = row.isOpen ? `${row.count.toLocaleString("en")} held` : closedText(row, stop);
  const waiting = row.isOpen ? 0 : row.members().reduce((sum, one) => sum + waitsBehind(store.data, one).length, 0);
  return html`
    <tr ...${common} class="dir">
      <td role="cell" class="c-lock"></td>
      <td role="cell" class="c-key"><button type="button" class="fold" tabindex="-1" aria-expanded=${row.isOpen} onClick=${(event) => toggle(event, row)}><${Icon} name=${row.isOpen ? "down" : "right"} /><bdi class="dir-name" dir="ltr" title=${row.path}>${row.name}</bdi></button></td>
      <td role="cell" class="c-holder">${!row.isOpen && html`<span class="chips">${row.holders.slice(0, 4).map((id) => html`<${Chip} key=${id} id=${id} />`)}${row.holders.length > 4 && html`<span class="quiet">+${row.holders.length - 4}</span>`}<span class="sr">${row.holders.map((id) => nameOf(store.data, id)).join(", ")}</span></span>`}</td>
      <td role="cell" class="c-reason">${text}</td>
      <td role="cell" class="c-waiting">${stop ? html`<span class="with-icon"><${Icon} name="pause" />${stop}</span>` : waiting > 0 && plural(waiting, "waits", "wait")}</td>
      <td role="cell" class="c-time">${row.isOpen ? html`<span class="narrow-only">${text}</span>` : html`<span class="left"><span class="quiet">next</span><span class="tm">${left(row.next, store.now)}</span></span>`}</td>
    </tr>`;
}

function closedText(row, stop) {
  if (stop) return `${row.count.toLocaleString("en")} held, feature paused`;
  return row.shared ? `${row.count.toLocaleString("en")} held, ${row.shared === row.count ? "all" : `${row.shared} of them`} shared` : `${row.count.toLocaleString("en")} held`;
}

/** The paused feature of every holder in a closed directory, or null. */
function pauseIn(row) {
  const features = pauses(store.data).map((one) => one.feature);
  if (!features.length) return null;
  const own = new Set(row.holders.map((id) => store.data.sessions.get(id)?.feature ?? null));
  return own.size === 1 && features.includes([...own][0]) ? [...own][0] : null;
}

/** Which padlock a reservation has. */
export function lockOf(one) {
  const { data, me, now } = store;
  if (me && waitsBehind(data, one).some((wait) => wait.sessionId === me)) return "waiting";
  const isMine = one.sessionId === me;
  if (isSoon(one, now)) return isMine ? "mine-soon" : "soon";
  return isMine ? "mine" : one.mode === "shared" ? "shared" : "other";
}

function lockText(one, lock) {
  const holder = one.sessionId === store.me ? "you" : nameOf(store.data, one.sessionId);
  const state = { waiting: `Held by ${holder}, and you wait for it`, soon: `Held by ${holder}, expires soon`, "mine-soon": "Held by you, expires soon", shared: `Shared by ${holder}` }[lock] ?? `Held by ${holder}`;
  return state;
}

/** The padlock: it opens what it locks, in the one way there is, or shows the ways. */
export function Lock({ one }) {
  const lock = lockOf(one);
  const ways = waysToOpen(one);
  const [isOpen, setOpen] = useState(false);
  const element = useRef(null);
  useEffect(() => isOpen && element.current?.querySelector(".sheet button")?.focus(), [isOpen]);
  const open = (way) => {
    setOpen(false);
    if (way === "release") attempt(one.id, () => act.release(store.me, one));
    else openDialog({ kind: way, one });
  };
  const text = lockText(one, lock);
  if (!ways.length) return html`<span class=${`lock ${lock}`} role="img" aria-label=${text} title=${text}><${Icon} name=${lock} /></span>`;
  const label = `${text}. ${ways.map(([name]) => name.replace("…", "")).join(" or ")}`;
  const close = (event) => !event.currentTarget.contains(event.relatedTarget) && setOpen(false);
  const click = (event) => {
    event.stopPropagation();
    if (ways.length === 1) open(ways[0][1]);
    else setOpen(!isOpen);
  };
  // Keys of the open menu: the list behind it does not get them.
  const press = (event) => {
    if (!isOpen) return;
    event.stopPropagation();
    if (event.key === "Escape" || event.key === "Tab") {
      event.preventDefault();
      element.current.closest("tr")?.focus();
      return setOpen(false);
    }
    const items = [...element.current.querySelectorAll(".sheet button")];
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return undefined;
    event.preventDefault();
    return items[(items.indexOf(document.activeElement) + step + items.length) % items.length]?.focus();
  };
  return html`
    <span class="locks" ref=${element} onfocusout=${close} onKeyDown=${press}>
      <button type="button" tabindex="-1" class=${`lock ${lock}`} aria-label=${label} title=${label} aria-expanded=${ways.length > 1 ? isOpen : undefined} onClick=${click}><${Icon} name=${lock} /></button>
      ${isOpen && html`<span class="sheet">${ways.map(([name, way]) => html`<button type="button" key=${way} onClick=${(event) => (event.stopPropagation(), open(way))}>${name}</button>`)}</span>`}
    </span>`;
}

function Held({ row, common, isSelected }) {
  const { one } = row;
  const { data, me } = store;
  const open = (event) => {
    if (event.target.closest("button, a, .sheet")) return;
    setParams({ id: isSelected ? "" : one.id }, { push: true });
  };
  const isNew = mayAnimate() && store.connection === "live" && store.now - one.since < 1500 && one.since > 0;
  const kind = `held ${row.isGone ? "gone" : ""} ${row.text === null ? "" : "in-tree"} ${isSelected ? "selected" : ""} ${isNew ? "new" : ""}`;
  const session = data.sessions.get(one.sessionId);
  const state = session ? sessionState(data, session, store.now, pauses(data)) : "alive";
  return html`
    <tr ...${common} class=${kind} aria-selected=${isSelected} onClick=${open} data-key=${shown(one.key)}>
      <td role="cell" class="c-lock">${row.isGone ? html`<span class="lock free" role="img" aria-label="Free"><${Icon} name="free" /></span>` : html`<${Lock} one=${one} />`}</td>
      <td role="cell" class="c-key"><span class="indent"><${Key} value=${one.key} whole=${row.text} /></span></td>
      <td role="cell" class="c-holder"><span class="holder"><${Chip} id=${one.sessionId} /><${Name} id=${one.sessionId} />${state === "silent" ? html` <span class="warn">silent</span>` : state === "paused" ? html` <span class="soft">paused</span>` : one.mode === "shared" && html` <span class="soft">shared</span>`}</span><span class="narrow-only soft reason-line"><bdi>${one.reason}</bdi></span></td>
      <td role="cell" class="c-reason"><bdi title=${one.reason ?? ""}>${one.reason}</bdi></td>
      <td role="cell" class="c-waiting"><${Behind} one=${one} me=${me} /></td>
      <td role="cell" class="c-time"><span class=${timeKind(one)}><${Bar} one=${one} /><${Left} one=${one} /></span></td>
    </tr>`;
}

/** "Bo and Cy wait, the first for 3 min; Dee asks". */
function behindText(asks, waits) {
  const names = (ids) => listNames([...new Set(ids)].map((id) => (id === store.me ? "you" : nameOf(store.data, id))), 5);
  const verb = (ids, one, many) => (new Set(ids).size === 1 && ids[0] !== store.me ? one : many);
  const parts = [];
  const waiting = waits.map((wait) => wait.sessionId);
  if (waits.length) parts.push(`${names(waiting)} ${verb(waiting, "waits", "wait")}${waits.length > 1 ? ", the first" : ""} for ${duration(store.now - waits[0].since)}`);
  const asking = asks.map((ask) => ask.by);
  if (asks.length) parts.push(`${names(asking)} ${verb(asking, "asks", "ask")}`);
  return parts.join("; ");
}

/** Who asks for it, or waits behind it. */
function Behind({ one, me }) {
  const asks = asksFor(store.data, one);
  const waits = waitsBehind(store.data, one);
  if (asks.length && one.sessionId === me) {
    const more = new Set([...asks.map((ask) => ask.by), ...waits.map((wait) => wait.sessionId)]).size - 1;
    return html`<b class="mine" title=${behindText(asks, waits)}><bdi>${nameOf(store.data, asks[0].by)}</bdi> asks${more > 0 ? ` +${more}` : ""}<span class="sr">. ${behindText(asks, waits)}</span></b>`;
  }
  if (!waits.length) return asks.length ? html`<span class="soft"><${Name} id=${asks[0].by} you="you" /> ${asks[0].by === me ? "ask" : "asks"}</span>` : null;
  const ids = [...new Set(waits.map((wait) => wait.sessionId))];
  const names = ids.slice(0, 2).map((id) => (id === me ? "you" : nameOf(store.data, id))).join(", ");
  return html`<span class=${`holder ${ids.includes(me) ? "mine" : "soft"}`} title=${behindText(asks, waits)}><span class="chips">${ids.slice(0, 2).map((id) => html`<${Chip} key=${id} id=${id} />`)}</span><bdi class="name">${names}${ids.length > 2 ? ` +${ids.length - 2}` : ""}</bdi></span>`;
}
