// The sessions: alive, silent, paused, lost; what each holds and waits for.

import { html, useState } from "./htm-preact.js";
import { endedSessions, heldBy, listNames, pauses, sessionRows, shortKey, waitsOf, whoIs } from "./derive.js";
import { openDialog } from "./actions.js";
import { shown } from "./keys.js";
import { Act, Chip, Heading, Icon, Name, Problem, plural, whyNot } from "./parts.js";
import { link } from "./route.js";
import { store } from "./store.js";
import { clock, duration, roughly } from "./time.js";

/** Rows in the page at first; a button adds as many. */
const ROWS_STEP = 300;
const KEYS_SHOWN = 2;

/** The class of a column, its heading, and whether only screen readers get the heading. */
const COLUMNS = [
  ["s-name", "Session"],
  ["s-state", "State"],
  ["s-feature", "Feature"],
  ["number s-count s-holds", "Holds"],
  ["s-what", "What"],
  ["s-waits", "Waits for"],
  ["number s-since", "Waiting", true],
  ["number s-count s-up", "Holds up"],
  ["s-end", "Actions", true],
];

export default function Sessions() {
  const { data, me, now, login } = store;
  const [rowsMax, setRowsMax] = useState(ROWS_STEP);
  const rows = sessionRows(data, me, now);
  const ended = endedSessions(data, now);
  const held = heldBy(data);
  return html`
    <main class="sessions">
      <${Heading} ...${headline(rows)}>${login?.scope === "admin" && html`<${Act} why=${whyNot()} onClick=${() => openDialog({ kind: "pause" })}>Pause a feature…</${Act}>`}</${Heading}>
      ${rows.length > 0 && html`
        <div class="scroll"><table class="plain tall" role="table">
          <thead role="rowgroup"><tr role="row">${COLUMNS.map(([kind, text, isHidden]) => html`<th key=${kind} role="columnheader" class=${kind}>${isHidden ? html`<span class="sr">${text}</span>` : text}</th>`)}</tr></thead>
          <tbody role="rowgroup">${rows.slice(0, rowsMax).map((row) => html`<${Row} key=${row.session.id} row=${row} held=${held.get(row.session.id) ?? []} />`)}</tbody></table></div>
        ${rows.length > rowsMax && html`<p class="nothing soft">${plural(rows.length - rowsMax, "more session is", "more sessions are")} not shown. <button type="button" class="button quiet" onClick=${() => setRowsMax(rowsMax + ROWS_STEP)}>Show more</button></p>`}`}
      ${!rows.length && html`<p class="nothing soft">Start a session with <code>git dibs run --name Ana -- your-agent</code>.</p>`}
      ${ended.length > 0 && html`<h2 class="part">Ended in the last hour <span>${ended.length}</span></h2>
        <table class="plain"><tbody>${ended.slice(0, 100).map((one) => html`<tr key=${one.id}><td class="s-name"><span class="holder"><${Chip} id=${one.id} off /><a class="name" href=${link("history", { session: one.id })}><${Name} id=${one.id} /></a></span></td><td><span class="with-icon soft"><${Icon} name="ended" />${one.state[0].toUpperCase() + one.state.slice(1)} ${clock(one.ended, now)}</span></td></tr>`)}</tbody></table>`}
    </main>`;
}

function headline(rows) {
  const silent = rows.filter((row) => row.state === "silent" && row.session.held > 0);
  const count = (state) => rows.filter((row) => row.state === state).length;
  const parts = [["alive", count("alive")], ["paused", count("paused")], ["silent", count("silent")]].filter(([, n]) => n).map(([name, n]) => `${n} ${name}`);
  const lead = rows.length ? `${parts.join(", ")}. Silent sessions are first, then yours.` : null;
  if (!rows.length) return { title: "No session is active", lead };
  if (!silent.length) return { title: `${plural(rows.length, "session is", "sessions are")} active`, lead };
  const names = listNames(silent.map((row) => whoIs(store.data, row.session.id, store.me)));
  const held = silent.reduce((sum, row) => sum + row.session.held, 0);
  return { title: `${names} ${silent.length === 1 && silent[0].session.id !== store.me ? "is silent and holds" : "are silent and hold"} ${plural(held, "reservation")}`, lead };
}

const STATES = { alive: "Alive", silent: "Silent", paused: "Paused" };

function Row({ row, held }) {
  const { session, state, up } = row;
  const { data, now, me, login } = store;
  const waits = waitsOf(data, session.id);
  const blocker = waits[0]?.blockedBy[0];
  const ago = now - session.seen;
  const seen = !session.seen ? "" : state === "silent" ? duration(ago) : ago < 1500 ? "now" : roughly(ago);
  const pause = state === "paused" && pauses(data).find((one) => one.feature === session.feature);
  const mayEnd = login?.scope === "admin" || session.id === me;
  return html`
    <tr role="row">
      <td role="cell" class="s-name"><a class="holder" href=${link("now", { q: `session:${session.id}` })}><${Chip} id=${session.id} /><${Name} id=${session.id} /></a><${Problem} at=${session.id} /></td>
      <td role="cell" class="s-state"><span class=${`with-icon ${state === "silent" ? "warn strong" : state === "paused" ? "warn" : ""}`} title=${pause ? `paused: ${pause.reason ?? ""}` : ""}><${Icon} name=${state === "paused" ? "pause" : state} />${STATES[state]} <span class=${state === "silent" ? "" : "quiet"}>${seen}</span></span></td>
      <td role="cell" class="s-feature soft"><bdi>${session.feature}</bdi></td>
      <td role="cell" class="number s-count s-holds">${session.held || ""}</td>
      <td role="cell" class="s-what"><span class="with-more"><code class="cut">${held.slice(0, KEYS_SHOWN).map((one) => shown(one.key)).join(", ")}</code>${held.length > KEYS_SHOWN && html`<span class="quiet">+${held.length - KEYS_SHOWN}</span>`}</span></td>
      <td role="cell" class="s-waits">${waits.length > 0 && html`<span class="holder">${blocker && html`<${Chip} id=${blocker.sessionId} />`}<code class="cut" title=${waits[0].keys.map(shown).join(", ")}>${shortKey(waits[0].keys[0])}</code></span>`}</td>
      <td role="cell" class="number quiet s-since">${waits.length > 0 && duration(now - waits[0].since)}</td>
      <td role="cell" class="number s-count s-up">${up || null}</td>
      <td role="cell" class="s-end"><a class="button quiet" href=${link("history", { session: session.id })} aria-label=${`History of ${whoIs(data, session.id, null)}`}>History</a>${mayEnd && html`<${Act} kind="quiet" why=${whyNot()} aria-label=${`End the session of ${whoIs(data, session.id, null)}`} onClick=${() => openDialog({ kind: "end", session })}>End…</${Act}>`}</td>
    </tr>`;
}
