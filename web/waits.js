// Who waits for whom: a picture, the refused cycles, and the same as a list.

import { html, useEffect, useLayoutEffect, useRef, useState } from "./htm-preact.js";
import { heldBy, hue, isSilent, listNames, monogram, nameOf, pauses, sessionState, sortedRoots, waitsOf, whoIs } from "./derive.js";
import { openDialog, waysToOpen } from "./actions.js";
import { readRefusals } from "./feed.js";
import { layout } from "./graph.js";
import { cutKey, cutName, shown } from "./keys.js";
import { Act, Chip, Heading, Icon, Key, Name, plural } from "./parts.js";
import { store } from "./store.js";
import { clock, duration, parseTime } from "./time.js";

const NODE = { size: 32, width: 150, height: 88 };
/** The least distance of two columns: a session, its label, and the curves into the next column. */
const MIN_STEP = 340;
/** Where curves begin, before the session that they lead to. */
const CURVE = 96;
/** The width of a letter in the picture, about: of a key, and of a name. */
const LETTER = { key: 7.3, name: 7.4 };

export default function Waits() {
  const { data, now } = store;
  useEffect(() => {
    readRefusals();
    const timer = setInterval(readRefusals, 10_000);
    return () => clearInterval(timer);
  }, []);
  const waits = [...data.waits.values()].sort((a, b) => a.since - b.since);
  const roots = sortedRoots(data, now);
  const waiting = new Set(waits.map((wait) => wait.sessionId));
  const names = listNames(roots.map((root) => whoIs(data, root.id, store.me)));
  const isOther = roots.length === 1 && roots[0].id !== store.me;
  const title = !waits.length ? "No one is waiting" : roots.length ? `${names} ${isOther ? "holds" : "hold"} up ${plural(waiting.size, "session")}` : `${plural(waiting.size, "session waits", "sessions wait")}`;
  const isMine = roots.length === 1 && !isOther;
  const lead = waits.length ? isMine ? "Release what you do not need any more: you are not waiting for anyone." : "Ask the sessions that could move now first: they are not waiting for anyone." : "When a request has to wait, it appears here with the session that blocks it.";
  return html`
    <main class="waits">
      <${Heading} title=${title} lead=${lead}>${roots.length > 0 && html`<${Nudges} roots=${roots.slice(0, 2)} />`}</${Heading}>
      ${waits.length > 0 && html`<div class="scroll picture" tabindex="0" role="region" aria-label="Who waits for whom"><${Picture} waits=${waits} /></div>`}
      <${Refused} />
      ${waits.length > 0 && html`<${List} waits=${waits} />`}
    </main>`;
}

/** What can be done about the sessions that hold up the others. */
function Nudges({ roots }) {
  return roots.map((root) => {
    const keys = waitedKeys(root);
    const one = (heldBy(store.data).get(root.id) ?? []).find((held) => keys.has(held.key));
    const ways = one ? waysToOpen(one) : [];
    const wanted = isSilent(store.data, root.id, store.now) ? "override" : "ask";
    const [text, way] = ways.find(([, name]) => name === wanted) ?? ways.find(([, name]) => name !== "release") ?? [];
    return way ? html`<${Act} key=${root.id} onClick=${() => openDialog({ kind: way, one })}>${text.replace("…", "")} <bdi>${nameOf(store.data, root.id)}</bdi>…</${Act}>` : null;
  });
}

/** The keys of a root that others wait for. */
function waitedKeys(root) {
  const keys = new Set();
  for (const wait of store.data.waits.values()) for (const { sessionId, key } of wait.blockedBy) if (sessionId === root.id) keys.add(key);
  return keys;
}

function Picture({ waits }) {
  const { data, me, now } = store;
  const element = useRef(null);
  const [room, setRoom] = useState(1088);
  useLayoutEffect(() => {
    const observer = new ResizeObserver(([entry]) => setRoom(Math.floor(entry.contentRect.width)));
    observer.observe(element.current.parentElement);
    return () => observer.disconnect();
  }, []);
  const { nodes, edges, columns, rows, left } = layout(waits);
  const width = Math.max(room, NODE.width + 80 + (columns - 1) * MIN_STEP);
  const step = columns > 1 ? (width - NODE.width - 78) / (columns - 1) : 0;
  const height = 24 + rows * NODE.height;
  const at = new Map(nodes.map((node) => [node.id, { x: node.column * step, y: 68 + node.row * NODE.height }]));
  const chain = ownChain(edges, me);
  const heads = [["0", "Waiting"], [String(step), "Waiting and blocking"], [String((columns - 1) * step), "Could move now"]];
  return html`
    <svg ref=${element} class="graph" width=${width} height=${height} viewBox=${`0 0 ${width} ${height}`} role="img" aria-label=${describe(edges)}>
      <defs>${["arrow", "arrow own"].map((kind) => html`<marker id=${kind.replace(" ", "-")} viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" markerUnits="userSpaceOnUse" orient="auto"><path class=${kind} d="M0 0 8 4 0 8z" /></marker>`)}</defs>
      ${heads.filter((_, n) => n !== 1 || columns > 2).map(([x, text], n, all) => html`<text x=${x} y="14" class=${n === all.length - 1 ? "small strong" : "small quiet"}>${text}</text>`)}
      <path class="rule" d=${`M0 26H${width}`} />
      ${edges.map((edge) => html`<${Edge} key=${`${edge.from} ${edge.to}`} edge=${edge} from=${at.get(edge.from)} to=${at.get(edge.to)} step=${step} isOwn=${chain.has(edge)} now=${now} />`)}
      ${nodes.map((node) => html`<${Node} key=${node.id} id=${node.id} at=${at.get(node.id)} data=${data} />`)}
      ${left > 0 && html`<text x="0" y=${height - 4} class="small quiet">${plural(left, "more session", "more sessions")} in the list below</text>`}
    </svg>`;
}

/** The edges from me on: my own chain. */
function ownChain(edges, me) {
  const chain = new Set();
  const rest = me ? [me] : [];
  while (rest.length) {
    const id = rest.pop();
    for (const edge of edges) {
      if (edge.from !== id || chain.has(edge)) continue;
      chain.add(edge);
      rest.push(edge.to);
    }
  }
  return chain;
}

function describe(edges) {
  const some = edges.slice(0, 20).map((edge) => `${whoIs(store.data, edge.from, store.me)} waits for ${nameOf(store.data, edge.to)} through ${shown(edge.key)}`);
  return some.join("; ") || "No session waits";
}

function Edge({ edge, from, to, step, isOwn, now }) {
  const [x1, x2] = [from.x + NODE.width, to.x - 8];
  // The line leaves straight, under its label, or between the rows where a session is in its way, and bends at its end.
  const bend = Math.max(x1 + 20, x2 - CURVE);
  const y = edge.passes ? from.y + NODE.height / 2 : from.y;
  const y2 = y === to.y ? y : to.y + (y > to.y ? 11 : -11);
  const start = edge.passes ? `M${x1} ${from.y}C${x1 + 40} ${from.y} ${x1 + 20} ${y} ${x1 + 60} ${y}` : `M${x1} ${y}`;
  const path = y === y2 ? `${start}H${x2}` : `${start}H${bend}C${bend + 56} ${y} ${x2 - 40} ${y2} ${x2} ${y2}`;
  return html`
    <g class=${isOwn ? "edge own" : "edge"}><path d=${path} marker-end=${`url(#${isOwn ? "arrow-own" : "arrow"})`} />
      ${edge.hasLabel && html`<${Label} edge=${edge} x=${x1 + 8} y=${from.y} room=${step - NODE.width - 24} now=${now} />`}</g>`;
}

/** What a session waits for, above its line, and when it gives up, below it. */
function Label({ edge, x, y, room, now }) {
  const { wait } = edge;
  const more = wait.keys.length + wait.more - 1;
  const end = more > 0 ? ` +${more}` : "";
  return html`
    <text class="mono halo" x=${x} y=${y - 9}><title>${wait.keys.map(shown).join("\n")}</title>${cutKey(shown(edge.key), Math.floor(room / LETTER.key) - end.length)}${end}</text>
    ${wait.givesUp > 0 && html`<text class="small quiet halo" x=${x} y=${y + 19}>gives up in ${duration(wait.givesUp - now)}</text>`}`;
}

function Node({ id, at, data }) {
  const { me, now } = store;
  const session = data.sessions.get(id);
  const state = session ? sessionState(data, session, now, pauses(data)) : "alive";
  const waits = waitsOf(data, id);
  const root = sortedRoots(data, now).find((one) => one.id === id);
  const text = waits.length ? (state === "paused" ? "waits, paused" : `waits ${duration(now - waits[0].since)}`) : `${state === "silent" ? `silent ${duration(now - session.seen)}` : state}${root ? `, holds up ${root.behind.length}` : ""}`;
  const name = whoIs(data, id, me);
  return html`
    <g class=${`node n${id === me ? 0 : hue(id)}`}>
      <rect x=${at.x} y=${at.y - 16} width=${NODE.size} height=${NODE.size} rx="8" />
      <text class="letters" text-anchor="middle" x=${at.x + 16} y=${at.y + 4.5}>${monogram(nameOf(data, id))}</text>
      <text class="strong halo" x=${at.x + 42} y=${at.y - 2}><title>${id}</title>${cutName(name, Math.floor((NODE.width - 42) / LETTER.name))}</text>
      <text class=${`small halo ${state === "silent" ? "warn" : "soft"}`} x=${at.x + 42} y=${at.y + 15}>${text}</text>
    </g>`;
}

/** Waits that would have caused a deadlock. */
function Refused() {
  const { list, dropped } = store.refusals;
  const cycles = list.filter((one) => one.cycle?.length);
  const missing = dropped > 0 && html`<p class="small soft nothing">${plural(dropped, "more refused request")} of the last hour ${dropped === 1 ? "is" : "are"} not listed: there were too many.</p>`;
  if (!cycles.length) return missing || null;
  return html`
    <h2 class="part">Refused in the last hour <span>waits that would have caused a deadlock</span></h2>
    ${cycles.slice(0, 20).map((one) => html`
      <div class="cycle" key=${`${one.at} ${one.sessionId}`}><span class="quiet">${clock(parseTime(one.at), store.now)}</span><${Icon} name="circle" />
        <span class="holder">${one.cycle.map((step) => html`<${Chip} id=${step.session} /><${Name} id=${step.session} />`)}</span>
        <span class="soft">${one.cycle.map((step, n) => html`${["", " while ", " and "][Math.min(n, 2)]}<${Name} id=${step.session} you=${n ? "you" : "You"} /> ${n ? "waited for" : "wanted"} <code>${shown(step.wants)}</code>`)}${one.count > 1 && html`, ${one.count.toLocaleString("en")} times since ${clock(parseTime(one.firstAt), store.now)}`}</span></div>`)}
    ${missing}`;
}

function List({ waits }) {
  const { now } = store;
  return html`
    <h2 class="part bare">As a list <span>longest first</span></h2>
    <table class="plain"><thead><tr><th>Who waits</th><th>For</th><th>Held by</th><th class="number">Waiting</th></tr></thead>
      <tbody>${waits.slice(0, 500).map((wait) => html`
        <tr key=${wait.id}><td><span class="holder"><${Chip} id=${wait.sessionId} /><${Name} id=${wait.sessionId} /></span></td>
          <td><${Key} value=${wait.keys[0]} />${wait.keys.length + wait.more > 1 && html` <span class="quiet">+${wait.keys.length + wait.more - 1}</span>`}</td>
          <td>${[...new Set(wait.blockedBy.map((one) => one.sessionId))].slice(0, 2).map((id) => html`<span class="holder" key=${id}><${Chip} id=${id} /><${Name} id=${id} you="you" /></span>`)}</td>
          <td class="number">${duration(now - wait.since)}</td></tr>`)}</tbody></table>`;
}
