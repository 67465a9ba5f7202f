// Small parts that all views use. Text from the server is always text: nothing in here makes markup of it.

import { html, useEffect, useLayoutEffect, useRef, useState } from "./htm-preact.js";
import { hue, isSoon, monogram, nameOf, shareLeft } from "./derive.js";
import { kindOf, shown, splitShown, splitWhole } from "./keys.js";
import { refreshLogin } from "./feed.js";
import { left } from "./time.js";
import { set, store } from "./store.js";

// 16 × 16, drawn with a line of 1.5.
const closed = html`<path d="M5 7V5a3 3 0 0 1 6 0v2" />`;
const lifted = html`<path d="M5 7V4.4a3 3 0 0 1 5.7-1.3" />`;
const body = html`<rect x="3" y="7" width="10" height="7" rx="1.5" />`;
const solid = html`<rect x="3" y="7" width="10" height="7" rx="1.5" class="filled" /><path class="keyhole" d="M8 9.8v1.6" />`;

const DRAWINGS = {
  other: [closed, body],
  mine: [closed, solid],
  shared: [closed, body, html`<path class="dots" d="M6.3 10.5h.01M9.7 10.5h.01" />`],
  waiting: html`<path d="M4.2 6.5v-2a2.8 2.8 0 0 1 5.6 0v2" /><path d="M6.5 13.3H3.6A1.4 1.4 0 0 1 2.2 11.9V8a1.4 1.4 0 0 1 1.4-1.4h6.8" /><circle cx="11.4" cy="11.4" r="3.6" /><path class="thin" d="M11.4 9.6v1.9l1.2.8" />`,
  soon: [lifted, body, html`<path class="drained" d="M3.6 12.4h8.8" />`],
  "mine-soon": [lifted, solid],
  free: [lifted, body],
  down: html`<path d="m4.5 6.5 3.5 3.5 3.5-3.5" />`,
  right: html`<path d="m6.5 4.5 3.5 3.5-3.5 3.5" />`,
  back: html`<path d="M9.5 4.5 6 8l3.5 3.5" />`,
  close: html`<path d="m4.5 4.5 7 7M11.5 4.5l-7 7" />`,
  check: html`<path d="m3.5 8.5 3 3 6-7" />`,
  pause: html`<path class="bars" d="M5.5 3.5v9M10.5 3.5v9" />`,
  search: html`<circle cx="7" cy="7" r="4.2" /><path d="m10.2 10.2 3.3 3.3" />`,
  link: html`<path d="M6.5 9.5 9.5 6.5M7 4.8l1.2-1.2a3 3 0 0 1 4.2 4.2L11.2 9M9 11.2l-1.2 1.2a3 3 0 0 1-4.2-4.2L4.8 7" />`,
  tree: html`<path d="M3 3.5h4M6 8h7M6 12.5h7M3.5 3.5v9H6M3.5 8H6" />`,
  table: html`<path d="M3 4h10M3 8h10M3 12h10" />`,
  circle: html`<path d="M12.8 6.5A5 5 0 0 0 3.6 5.7M3.2 9.5a5 5 0 0 0 9.2.8" /><path d="M3.4 2.8v3h3M12.6 13.2v-3h-3" />`,
  alive: html`<circle cx="8" cy="8" r="4" class="filled" />`,
  silent: html`<circle cx="8" cy="8" r="4.2" /><path class="half" d="M8 3.8a4.2 4.2 0 0 1 0 8.4z" />`,
  ended: html`<circle cx="8" cy="8" r="4.2" class="dashed" /><path d="m5 11 6-6" />`,
};

export const Icon = ({ name, size = 16, kind = "" }) =>
  html`<svg class=${`icon ${kind}`} viewBox="0 0 16 16" width=${size} height=${size} aria-hidden="true">${DRAWINGS[name]}</svg>`;

/** Two letters on the colour of a session. The person's own is solid. */
export function Chip({ id, name = null, off = false }) {
  const kind = off ? "off" : id === store.me ? "c0" : `c${hue(id)}`;
  return html`<span class=${`chip ${kind}`} aria-hidden="true">${monogram(name ?? nameOf(store.data, id))}</span>`;
}

/** The name of a session. Names of others may be in any script, so each is isolated. */
export const Name = ({ id, you = "You", strong = false }) => {
  const text = id === store.me ? you : nameOf(store.data, id);
  return strong ? html`<b class="name" title=${id}>${text}</b>` : html`<bdi class="name" title=${id}>${text}</bdi>`;
};

/** A key: the directory quietly, then its last part. The directory shrinks first. */
export function Key({ value, whole = null }) {
  const [quiet, last] = whole === null ? splitShown(value) : splitWhole(whole);
  const title = kindOf(value) === "path" ? shown(value) : value;
  return html`<span class="key" title=${title}>${quiet && html`<bdi class="quiet" dir="ltr">${quiet}</bdi>`}<bdi class="last" dir="ltr">${last}</bdi></span>`;
}

/** How much of a reservation is left, as a number. */
export function Left({ one }) {
  return html`<span class="tm">${left(one.expires, store.now)}</span>`;
}

/** The bar of a reservation: the share of its own TTL that is left. */
export function Bar({ one, wide = false }) {
  const element = useRef(null);
  const share = shareLeft(one, store.now);
  useLayoutEffect(() => element.current.style.setProperty("--left", share.toFixed(4)), [share]);
  return html`<span class=${wide ? "bar wide" : "bar"} ref=${element} aria-hidden="true"><b></b></span>`;
}

export function timeKind(one) {
  return `left${isSoon(one, store.now) ? " soon" : ""}${one.sessionId === store.me ? " mine" : ""}`;
}

/** Copies text. Whether it is in the clipboard is said in its own place for a moment. */
export function Copy({ text, children = "Copy", kind = "copy" }) {
  const [result, setResult] = useState(null);
  useEffect(() => {
    if (!result) return undefined;
    const timer = setTimeout(() => setResult(null), 2000);
    return () => clearTimeout(timer);
  }, [result]);
  const copy = async () => setResult((await copyText(typeof text === "function" ? text() : text)) ? "Copied" : "Not copied");
  return html`<button type="button" class=${`button ${kind}`} onClick=${copy}><span aria-live="polite">${result ?? children}</span></button>`;
}

/** Puts text into the clipboard. Returns whether it is there: a page over plain HTTP has no clipboard but the old command. */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyWithCommand(text);
  }
}

function copyWithCommand(text) {
  const focused = document.activeElement;
  const field = Object.assign(document.createElement("textarea"), { value: text, className: "sr" });
  // Within a dialog, nothing outside of it can be selected.
  (focused?.closest("dialog") ?? document.body).append(field);
  field.select();
  const isCopied = document.execCommand("copy");
  field.remove();
  focused?.focus({ preventScroll: true });
  return isCopied;
}

export const Command = ({ text }) => html`<span class="command"><code>${text}</code><${Copy} text=${text} /></span>`;

/** The sentence of the server, under what caused it, until the next action. */
export function Problem({ at }) {
  const { problem } = store;
  return problem?.at === at ? html`<p class="problem" role="alert">${problem.sentence}</p>` : null;
}

/** Runs an action. What the server refuses is shown at `at`. */
export async function attempt(at, action) {
  set({ problem: null });
  try {
    await action();
    return true;
  } catch (refusal) {
    if (!refusal.status && refusal.status !== 0) throw refusal;
    // Another tab may have signed in, or this login may have ended.
    if (refusal.status === 401 || refusal.status === 403) refreshLogin();
    set({ problem: { at, sentence: refusal.message } });
    return false;
  }
}

/** A button for an action that may not be possible now; then it keeps its place and says why. */
export function Act({ kind = "", onClick, why = null, children, ...more }) {
  return html`<button type="button" class=${`button ${kind}`} disabled=${Boolean(why)} title=${why ?? undefined} onClick=${onClick} ...${more}><span class="label">${children}</span></button>`;
}

/** Why nothing can be changed now, or null. */
export function whyNot() {
  if (store.connection !== "live") return "The server does not answer.";
  if (!store.login?.mayChange) return store.login?.scope === "read" ? "Your token is read only." : "This tab is read only. Sign in here again.";
  return hasEnded() ? "Your session has ended." : null;
}

/** Whether the session that the person acts for has ended. */
export function hasEnded() {
  const own = store.me && store.login.scope !== "admin" ? store.data.sessions.get(store.me) : null;
  return Boolean(own) && own.state !== "active";
}

/** A heading that answers the question of the view, and what goes with it. */
export const Heading = ({ title, lead, children }) => html`
  <div class="heading">
    <div><h1 tabindex="-1">${title}</h1>${lead && html`<p class="soft">${lead}</p>`}</div>
    ${children && html`<div class="actions">${children}</div>`}
  </div>`;

/** Choose one of a few. */
export const Choice = ({ label, value, options, onChoose }) => html`
  <div class="choice" role="group" aria-label=${label}>
    ${options.map(([name, text]) => html`<button type="button" key=${name} aria-pressed=${name === value} onClick=${() => onChoose(name)}>${text}</button>`)}
  </div>`;

export function plural(count, one, many = `${one}s`) {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
}
