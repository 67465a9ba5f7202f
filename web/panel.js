// One reservation in full, beside the list.

import { html, useEffect, useState } from "./htm-preact.js";
import { get, act } from "./api.js";
import { asksFor, nameOf, waitsBehind, waitsOf } from "./derive.js";
import { openDialog, waysToOpen } from "./actions.js";
import { splitShown, typed } from "./keys.js";
import { Act, Bar, Chip, Command, Icon, Key, Left, Name, Problem, attempt, timeKind, whyNot } from "./parts.js";
import { lockOf } from "./now.js";
import { link, param, setParams } from "./route.js";
import { store } from "./store.js";
import { clock, duration, parseTime, roughly } from "./time.js";

const EVENTS_SHOWN = 8;

export default function Panel() {
  const one = store.data.reservations.get(param("id"));
  if (!param("id")) return null;
  const close = () => {
    setParams({ id: "" });
    document.getElementById(`row-${store.focus}`)?.focus();
  };
  return html`
    <aside class="panel" aria-label="Details" onKeyDown=${(event) => event.key === "Escape" && close()}>
      ${one ? html`<${Details} key=${one.id} one=${one} close=${close} />` : html`
        <div class="panel-head"><${Icon} name="free" /><span class="soft">This is no longer held.</span><button type="button" class="button icon-only" aria-label="Close" onClick=${close}><${Icon} name="close" /></button></div>`}
    </aside>`;
}

function Details({ one, close }) {
  const { data, me, now } = store;
  const [quiet, last] = splitShown(one.key);
  const session = data.sessions.get(one.sessionId);
  const waits = waitsBehind(data, one);
  const isMine = one.sessionId === me;
  return html`
    <div class="panel-head"><span class=${`lock ${lockOf(one)}`}><${Icon} name=${lockOf(one)} /></span><span class="soft">Held by</span><${Chip} id=${one.sessionId} /><b><${Name} id=${one.sessionId} you="you" /></b>
      <button type="button" class="button icon-only" aria-label="Close" onClick=${close}><${Icon} name="close" /></button></div>
    <h2 class="panel-key"><span class="quiet">${quiet}</span>${last}</h2>
    ${one.reason && html`<p class="soft"><bdi>${one.reason}</bdi></p>`}
    <div class=${timeKind(one)}><p class="panel-time"><span class="huge"><${Left} one=${one} /></span><span class="soft">left of ${duration(one.ttl)}, unless <${Name} id=${one.sessionId} you="you" /> ${one.whileSession ? (isMine ? "call" : "calls") : isMine ? "renew" : "renews"}${one.whileSession ? " the server" : ""}</span></p><${Bar} one=${one} wide /></div>
    <${Ways} one=${one} />
    <${Problem} at=${one.id} />
    <${Queue} one=${one} waits=${waits} />
    <section><h2>Facts</h2><dl class="facts">
      <dt>Mode</dt><dd>${one.mode}</dd>
      <dt>Since</dt><dd>${clock(one.since, now, true)}, for ${duration(now - one.since)}</dd>
      ${session?.feature && html`<dt>Feature</dt><dd><bdi>${session.feature}</bdi></dd>`}
      <dt>Fence</dt><dd>${one.fence.toLocaleString("en")}</dd>
      ${session?.seen > 0 && html`<dt>Last seen</dt><dd><${Name} id=${one.sessionId} />, ${roughly(now - session.seen)} ago</dd>`}
      <dt>Session</dt><dd><code>${one.sessionId}</code></dd>
      <dt>Id</dt><dd><code>${one.id}</code></dd></dl></section>
    <${Before} one=${one} />`;
}

function Ways({ one }) {
  const ways = waysToOpen(one);
  const why = whyNot();
  const name = nameOf(store.data, one.sessionId);
  if (why && store.login?.scope === "read") return null;
  const asked = asksFor(store.data, one).find((request) => request.by === store.me);
  return html`<div class="actions">
    ${asked && html`<span class="soft">You have asked.</span><${Act} kind="quiet" why=${why} onClick=${() => attempt(one.id, () => act.withdraw(store.me, asked))}>Withdraw</${Act}>`}
    ${ways.map(([text, way]) => {
      if (way === "release") return html`<${Act} kind="primary" onClick=${() => attempt(one.id, () => act.release(store.me, one))}>Release</${Act}>`;
      const kind = way === "override" ? "danger apart" : "primary";
      return html`<${Act} kind=${kind} onClick=${() => openDialog({ kind: way, one })}>${way === "ask" ? html`Ask <bdi>${name}</bdi>…` : text}</${Act}>`;
    })}
  </div>`;
}

function Queue({ one, waits }) {
  const { now } = store;
  const isOther = one.sessionId !== store.me;
  return html`
    <section>
      ${waits.length > 0 && html`<h2>Waiting behind it</h2>${waits.map((wait, n) => html`
        <div class="queue" key=${wait.id}><span class="quiet">${n + 1}</span><${Chip} id=${wait.sessionId} /><span class="cut"><${Name} id=${wait.sessionId} /> <${Key} value=${wait.keys[0]} whole=${splitShown(wait.keys[0])[1]} /></span><span class="number">${duration(now - wait.since)}</span></div>`)}`}
      ${isOther && !waitsOf(store.data, store.me).length && html`<p class="small soft">To get it as soon as it is free:</p><${Command} text=${`git dibs wait ${typed(one.key)}`} />`}
    </section>`;
}

const VERBS = { reserved: "reserved", released: "released", amended: "changed", queued: "waited for", unlockRequested: "asked for", unlockAnswered: "answered" };

/** What happened to this key before. */
function Before({ one }) {
  const [events, setEvents] = useState(null);
  useEffect(() => {
    let isGone = false;
    const query = { path: one.key, limit: 20, ...(one.encoding && { encoding: one.encoding }) };
    get("api/history", query).then((page) => !isGone && setEvents(page.events)).catch(() => !isGone && setEvents([]));
    return () => {
      isGone = true;
    };
  }, [one.id]);
  const shownEvents = (events ?? []).filter((event) => VERBS[event.event]).slice(0, EVENTS_SHOWN);
  return html`
    <section><h2>Recent events</h2>
      ${shownEvents.map((event) => html`<div class="event" key=${event.seq}><span class="quiet">${clock(parseTime(event.at), store.now)}</span><span class="cut"><bdi>${sessionOf(event)}</bdi> ${verbOf(event)} ${objectOf(event, one)}</span><span class="quiet">${event.fence?.toLocaleString("en")}</span></div>`)}
      <p><a class="link" href=${link("history", { path: one.key, encoding: one.encoding })}>History of this path</a></p></section>`;
}

/** The key of an event, if it is another one. */
function objectOf(event, one) {
  const key = event.filePath ?? event.filePaths?.[0];
  if (key && key !== one.key) return html`<code>${splitShown(key)[1]}</code>`;
  return / for$/.test(VERBS[event.event]) ? "it" : null;
}

function sessionOf(event) {
  const id = event.sessionId ?? event.requestedBy ?? event.respondedBy;
  return event.sessionName ?? (id ? nameOf(store.data, id) : "");
}

function verbOf(event) {
  if (event.event !== "released") return VERBS[event.event];
  return { expired: "let it expire", overridden: `lost it to ${event.by ?? "an admin"}`, ended: "ended its session", approved: "gave it up" }[event.why] ?? "released";
}
