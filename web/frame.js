// What is around every view: the repository, the tabs, the connection, the person, the pauses.

import { html, useEffect, useRef, useState } from "./htm-preact.js";
import { hasSecret, signOut } from "./api.js";
import { connect, disconnect } from "./feed.js";
import { listNames, monogram, nameOf, pauses, requestGroups } from "./derive.js";
import { openDialog } from "./actions.js";
import { Act, Icon, hasEnded, plural, whyNot } from "./parts.js";
import { link } from "./route.js";
import { set, store } from "./store.js";
import { clock } from "./time.js";

const TABS = [
  ["now", "Now", "Now"],
  ["requests", "Unlock requests", "Requests"],
  ["waits", "Waits", "Waits"],
  ["sessions", "Sessions", "Sessions"],
  ["history", "History", "History"],
  ["hot", "Hot spots", "Hot spots"],
];

export function Top() {
  const { data, me, route } = store;
  const open = requestGroups(data, me).incoming.length;
  const active = [...data.sessions.values()].filter((one) => one.state === "active").length;
  const counts = { now: data.order.length, waits: new Set([...data.waits.values()].map((one) => one.sessionId)).size, sessions: active };
  const nav = useRef(null);
  useEffect(() => {
    // Where the tabs scroll, the current one is in sight.
    const current = nav.current.querySelector("[aria-current]");
    if (current) nav.current.scrollLeft = current.offsetLeft - nav.current.offsetLeft - (nav.current.clientWidth - current.offsetWidth) / 2;
  }, [route.view]);
  return html`
    <header class="top">
      <div class="brand"><span class="mark"><${Icon} name="mine" /></span>git-dibs<${Repositories} /></div>
      <nav aria-label="Views" ref=${nav}>
        ${TABS.map(([view, long, short]) => html`
          <a key=${view} href=${link(view)} aria-current=${route.view === view ? "page" : undefined}>
            <span class="long">${long}</span><span class="short">${short}</span>
            ${counts[view] ? html`<span class="count">${counts[view].toLocaleString("en")}</span>` : null}
            ${view === "requests" && open ? html`<span class="badge" aria-label=${plural(open, "needs", "need") + " your answer"}>${open}</span>` : null}
          </a>`)}
      </nav>
      <div class="person"><${Connection} /><${Person} /></div>
    </header>`;
}

/** A button that opens a list below it. */
function Menu({ hint, button, children }) {
  const [isOpen, setOpen] = useState(false);
  const element = useRef(null);
  useEffect(() => {
    if (!isOpen) return undefined;
    const close = (event) => {
      if (event.type === "keydown" ? event.key === "Escape" : !element.current.contains(event.target)) {
        if (event.type === "keydown") element.current.querySelector("button").focus();
        setOpen(false);
      }
    };
    for (const name of ["pointerdown", "keydown", "focusin"]) document.addEventListener(name, close);
    return () => ["pointerdown", "keydown", "focusin"].forEach((name) => document.removeEventListener(name, close));
  }, [isOpen]);
  return html`
    <div class="menu" ref=${element}>
      <button type="button" class="opener" aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)}>${button}<span class="sr">. ${hint}</span><${Icon} name="down" /></button>
      ${isOpen && html`<div class="sheet" onClick=${() => setOpen(false)}>${children}</div>`}
    </div>`;
}

function Repositories() {
  const { login, repo } = store;
  if (!login) return null;
  if (login.repositories.length < 2) return html`<bdi class="repo">${repo}</bdi>`;
  const choose = (name) => {
    location.hash = link("now", { repo: name });
  };
  return html`<${Menu} hint="Switch the repository" button=${html`<bdi>${repo}</bdi>`}>
    ${login.repositories.map((name) => html`<button type="button" key=${name} aria-current=${name === repo ? "true" : undefined} onClick=${() => choose(name)}><bdi>${name}</bdi></button>`)}
  </${Menu}>`;
}

function Connection() {
  const { connection } = store;
  const text = { live: "Live", loading: "Loading…", reconnecting: "Reconnecting…" }[connection] ?? "";
  return html`<span class=${`connection ${connection}`} role="status"><i></i><span>${text}</span></span>`;
}

/** Who is signed in, in words. */
function describePerson() {
  const { data, login, me } = store;
  // A session that has not called yet is known by its token alone.
  const own = me && login.scope !== "admin" ? (data.sessions.get(me)?.name ?? login.name ?? me) : null;
  const name = own ?? (login.name ?? (login.scope === "read" && login.subject === "local" ? "You" : login.subject));
  const rights = login.scope === "admin" && login.mayChange ? "admin" : !login.mayChange ? "read only" : hasEnded() ? "session ended" : null;
  return [name, rights];
}

function Person() {
  const [name, rights] = describePerson();
  const leave = async () => {
    disconnect();
    await signOut().catch(() => {});
    set({ login: null, connection: "out" });
  };
  const text = rights ? `${name}, ${rights}` : name;
  return html`<${Menu} hint="Menu" button=${html`<span class="chip c0" aria-hidden="true">${monogram(name)}</span><bdi class="person-name">${text}</bdi>`}>
    <p class="soft small">Signed in until ${clock(Date.parse(store.login.expiresAt), store.now)}</p>
    <a href="docs">API reference</a>
    <button type="button" onClick=${() => openDialog({ kind: "keys" })}>Keyboard shortcuts</button>
    <button type="button" onClick=${leave}>Sign out</button>
  </${Menu}>`;
}

const PAUSES_SHOWN = 2;

export function Banner() {
  const all = pauses(store.data);
  const [isOpen, setOpen] = useState(false);
  if (!all.length) return null;
  if (all.length > PAUSES_SHOWN && !isOpen) {
    return html`<div class="banner" role="status"><${Icon} name="pause" /><span class="text"><b>${all.length} features are paused</b> <span class="soft">${listNames(all.map((one) => one.feature), 3)}</span></span><${Act} onClick=${() => setOpen(true)}>Show</${Act}></div>`;
  }
  return all.map((pause) => html`<${Pause} key=${pause.reservationId} pause=${pause} />`);
}

function Pause({ pause }) {
  const { data, me, now } = store;
  const stopped = [...data.sessions.values()].filter((one) => one.state === "active" && one.feature === pause.feature && one.id !== pause.sessionId);
  const names = listNames(stopped.map((one) => (one.id === me ? "you" : nameOf(data, one.id))), 3);
  const isMine = pause.sessionId === me;
  const may = store.login?.scope === "admin" || isMine;
  return html`
    <div class="banner" role="status">
      <${Icon} name="pause" />
      <span class="text"><b><bdi>${pause.feature}</bdi> is paused</b> by <bdi>${isMine ? "you" : nameOf(data, pause.sessionId)}</bdi> since ${clock(pause.since, now)}${pause.reason && html`: <bdi>${pause.reason}</bdi>`}. ${names && html`<span class="soft detail"><bdi>${names}</bdi> cannot reserve or commit.</span>`}</span>
      ${may && html`<${Act} why=${whyNot()} onClick=${() => openDialog({ kind: "resume", pause })}>Resume…</${Act}>`}
    </div>`;
}

/** What is said while this tab is read only although its browser is signed in, or while its session has ended. */
export function ReadOnly() {
  const { login, connection } = store;
  if (connection === "live" && hasEnded()) return html`<div class="banner" role="status"><${Icon} name="ended" /><span class="text"><b>Your session has ended.</b> This page is read only now. Start another session and run <code>git dibs open</code> again.</span></div>`;
  if (connection !== "live" || login.mayChange || (login.scope === "read" && !hasSecret())) return null;
  const again = () => {
    disconnect();
    set({ login: null, connection: "out" });
  };
  return html`<div class="banner" role="status"><${Icon} name="free" /><span class="text"><b>This tab is read only.</b> The browser was signed in from another tab, and only that tab can make changes.</span><${Act} onClick=${again}>Sign in here again</${Act}></div>`;
}

/** What is said while the server does not answer. */
export function Lost() {
  const { connection, lostAt, reloadedAt, now } = store;
  if (connection === "reconnecting") {
    return html`<div class="banner lost" role="status"><${Icon} name="circle" /><span class="text"><b>Reconnecting…</b> The server does not answer. What you see is from ${clock(lostAt, now, true)}; nothing can be changed until it is back.</span><${Act} onClick=${connect}>Try now</${Act}></div>`;
  }
  if (reloadedAt && now - reloadedAt < 10_000) return html`<p class="reloaded soft small" role="status">Reloaded at ${clock(reloadedAt, now, true)}.</p>`;
  return null;
}
