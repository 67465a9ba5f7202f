// What needs attention, in every view: requests to answer, what I wait for, who holds up whom, what expires next.

import { html } from "./htm-preact.js";
import { act } from "./api.js";
import { expiring, holderOf, isSilent, isSoon, nameOf, requestGroups, sortedRoots, waitsOf, whoIs } from "./derive.js";
import { blockerOf, openDialog } from "./actions.js";
import { Act, Chip, Icon, Key, Name, Problem, attempt, whyNot } from "./parts.js";
import { link } from "./route.js";
import { store } from "./store.js";
import { duration, left } from "./time.js";

const STUCK_SHOWN = 5;
const EXPIRING_SHOWN = 3;

export function Rail() {
  const { data, me, route } = store;
  const groups = requestGroups(data, me);
  const own = me ? waitsOf(data, me) : [];
  const roots = sortedRoots(data, store.now);
  const next = expiring(data, store.now, EXPIRING_SHOWN);
  const isEmpty = !groups.incoming.length && !own.length && !roots.length && !next.length;
  return html`
    <aside class="rail" aria-label="Needs attention">
      ${isEmpty && html`<section><h2>Nothing needs you</h2><p class="soft">Requests, stuck sessions and what expires next appear here.</p></section>`}
      ${groups.incoming.length > 0 && route.view !== "requests" && html`
        <section><h2>Needs your answer <span>${groups.incoming.length}</span></h2>${groups.incoming.map((one) => html`<${Ask} key=${one.id} request=${one} />`)}</section>`}
      ${own.length > 0 && html`
        <section class="wide-only"><h2>You wait for <span>${own.length}</span></h2>${own.map((one) => html`<${OwnWait} key=${one.id} wait=${one} />`)}</section>`}
      ${roots.length > 0 && html`
        <section><h2>Stuck <span>longest wait</span></h2>${roots.slice(0, STUCK_SHOWN).map((one) => html`<${Root} key=${one.id} root=${one} />`)}
          ${roots.length > STUCK_SHOWN && html`<a class="more" href=${link("waits")}>${roots.length - STUCK_SHOWN} more</a>`}</section>`}
      ${next.length > 0 && html`
        <section class="wide-only"><h2>Expires next <span>of ${data.order.length.toLocaleString("en")}</span></h2>${next.map((one) => html`<${Expiring} key=${one.id} one=${one} />`)}</section>`}
    </aside>`;
}

/** The three answers to a request. */
export function Answers({ request, at }) {
  const holder = holderOf(store.data, request);
  const why = whyNot();
  return html`
    <div class="actions">
      <${Act} kind="primary" why=${why} onClick=${() => attempt(at, () => act.handOver(holder, request))}>Hand over</${Act}>
      <${Act} why=${why} onClick=${() => attempt(at, () => act.approve(holder, request))}>Approve</${Act}>
      <${Act} kind="quiet" why=${why} onClick=${() => openDialog({ kind: "reject", request })}>Reject…</${Act}>
    </div>`;
}

const Ask = ({ request }) => html`
  <div class="ask">
    <p class="who"><${Chip} id=${request.by} /><span><${Name} id=${request.by} strong /> asks for</span><span class="when">${duration(store.now - request.at)}</span></p>
    <${Key} value=${request.key} />
    <p class="soft small" title=${request.reason}>${request.reason}</p>
    <${Answers} request=${request} at=${`rail ${request.id}`} />
    <${Problem} at=${`rail ${request.id}`} />
  </div>`;

function OwnWait({ wait }) {
  const blocker = wait.blockedBy[0];
  const behind = blocker && blockerOf(blocker.sessionId);
  return html`
    <div class="line">
      <span class="warn"><${Icon} name="waiting" /></span>
      <div><p><${Key} value=${wait.keys[0]} />${wait.keys.length + wait.more > 1 && html` <span class="quiet">and ${wait.keys.length + wait.more - 1} more</span>`}</p>
        ${blocker && html`<p class="soft small"><${Name} id=${blocker.sessionId} /> ${blocker.kind === "waiter" ? "is ahead in the queue" : "holds it"}${behind && html` and waits for <${Name} id=${behind.sessionId} />`}</p>`}</div>
      <span class="number">${duration(store.now - wait.since)}</span>
    </div>`;
}

/** "Bo, Jonas, then you": the sessions that wait directly, then the sessions behind them. */
export function lineBehind(root) {
  const { data, me } = store;
  const name = (one) => (one.id === me ? "you" : nameOf(data, one.id));
  const first = root.behind.filter((one) => one.depth === 1).map(name);
  const later = root.behind.filter((one) => one.depth > 1).map(name);
  const cut = (names) => (names.length > 3 ? `${names.slice(0, 3).join(", ")} and ${names.length - 3} more` : names.join(", "));
  return later.length ? `${cut(first)}, then ${cut(later)}` : cut(first);
}

function Root({ root }) {
  const { data, now } = store;
  const session = data.sessions.get(root.id);
  return html`
    <div class="line">
      <${Chip} id=${root.id} />
      <div><p><b><bdi>${whoIs(data, root.id, store.me)}</bdi></b> ${root.id === store.me ? "hold" : "holds"} up ${root.behind.length}</p>
        <p class="soft small"><bdi>${lineBehind(root)}</bdi>${isSilent(data, root.id, now) && html`. <b class="warn">Silent ${duration(now - session.seen)}</b>`}</p></div>
      <b class="number">${duration(now - root.since)}</b>
    </div>`;
}

const Expiring = ({ one }) => html`
  <a class="line expiring" href=${link("now", { id: one.id })}>
    <span class=${`tm ${isSoon(one, store.now) ? "warn strong" : ""}`}>${left(one.expires, store.now)}</span>
    <${Key} value=${one.key} />
    <${Chip} id=${one.sessionId} />
  </a>`;
