// Unlock requests: to me, from me, and those of others that an admin may answer.

import { html, useState } from "./htm-preact.js";
import { act } from "./api.js";
import { holderOf, isSilent, nameOf, requestGroups, waitsBehind } from "./derive.js";
import { openDialog } from "./actions.js";
import { shown } from "./keys.js";
import { Act, Chip, Heading, Icon, Key, Name, Problem, attempt, plural, whyNot } from "./parts.js";
import { Answers } from "./rail.js";
import { param, setParams } from "./route.js";
import { set, store } from "./store.js";
import { clock, duration } from "./time.js";

export default function Requests() {
  const { data, me, login } = store;
  const groups = requestGroups(data, me);
  const tab = param("tab") || "incoming";
  const isOut = tab === "outgoing" && Boolean(me);
  const open = isOut ? groups.outgoing : groups.incoming;
  const answered = isOut ? groups.answeredOut : me ? groups.answeredIn : groups.answeredOthers;
  return html`
    <main class="requests">
      <${Heading} ...${headline(groups, isOut)}><${Notify} /></${Heading}>
      ${me && html`<div class="tabs" role="tablist">
        <${Tab} name="incoming" text="Incoming" count=${groups.incoming.length} isOn=${!isOut} />
        <${Tab} name="outgoing" text="Outgoing" count=${groups.outgoing.length} isOn=${isOut} />
      </div>`}
      ${me && open.map((one) => html`<${Request} key=${one.id} request=${one} isOut=${isOut} />`)}
      ${me && !open.length && html`<p class="nothing soft">${isOut ? "You have not asked for anything. Ask a holder in Now, or with git dibs request." : "When a session asks for something you hold, the request appears here."}</p>`}
      ${groups.others.length > 0 && html`<h2 class="part">Requests to others <span>${login?.scope === "admin" ? "you can answer them as admin" : ""}</span></h2>${groups.others.map((one) => html`<${Request} key=${one.id} request=${one} />`)}`}
      ${!me && !groups.others.length && html`<p class="nothing soft">When a session asks the holder of a file for it, the request appears here.</p>`}
      ${answered.length > 0 && html`<h2 class="part">Answered <span>${answered.length}</span></h2>${answered.slice(0, 50).map((one) => html`<${Answered} key=${one.id} request=${one} isOut=${isOut} />`)}`}
    </main>`;
}

function headline(groups, isOut) {
  if (isOut) {
    const count = groups.outgoing.length;
    const names = [...new Set(groups.outgoing.map((one) => nameOf(store.data, holderOf(store.data, one))))];
    return { title: count ? `You wait for ${plural(count, "answer")}` : "You have no open requests", lead: count ? `${names.join(", ")} ${names.length === 1 ? "has" : "have"} been asked. A request also ends when the reservation does.` : null };
  }
  const count = groups.incoming.length;
  if (!store.me) {
    const others = groups.others.length;
    return { title: others ? `${plural(others, "request")} without an answer` : "No open requests", lead: others ? "The holders have been asked. A request also ends when the reservation does." : null };
  }
  return { title: count ? `${plural(count, "request needs", "requests need")} your answer` : "No requests for you", lead: count ? "Hand over gives it to the session that asks. Approve releases it to the next session in the queue." : null };
}

function Tab({ name, text, count, isOn }) {
  return html`<button type="button" role="tab" aria-selected=${isOn} onClick=${() => setParams({ tab: name === "incoming" ? "" : name })}>${text} <span>${count ? `${count} open` : ""}</span></button>`;
}

/** Asks the browser whether it may show notifications. */
function Notify() {
  const [permission, setPermission] = useState(() => globalThis.Notification?.permission ?? "denied");
  if (permission !== "default" || !store.me) return null;
  return html`<${Act} onClick=${async () => setPermission(await Notification.requestPermission())}>Notify me in the browser</${Act}>`;
}

function Request({ request, isOut = false }) {
  const { data, me, now, login } = store;
  const holder = holderOf(data, request);
  const one = data.reservations.get(request.reservationId);
  const isMine = me && holder === me;
  const waits = one ? new Set(waitsBehind(data, one).map((wait) => wait.sessionId)).size : 0;
  const focus = () => set({ focus: request.id });
  return html`
    <article class="request" id=${`request-${request.id}`} tabindex="-1" onFocus=${focus}>
      <${Chip} id=${isOut ? holder : request.by} />
      <div><p class="lead">${isOut ? html`You ask <${Name} id=${holder} strong /> for` : isMine ? html`<${Name} id=${request.by} strong /> asks for` : html`<${Name} id=${request.by} strong /> asks <${Name} id=${holder} strong /> for`} <${Key} value=${request.key} /></p>
        <p class="soft"><bdi>${request.reason}</bdi></p><${Problem} at=${request.id} /></div>
      <div class="small soft"><p>asked ${duration(now - request.at)} ago</p>
        ${isSilent(data, holder, now) ? html`<p class="warn strong"><${Name} id=${holder} /> is silent ${duration(now - data.sessions.get(holder).seen)}</p>` : one && one.key !== request.key ? html`<p>through ${shown(one.key)}</p>` : html`<p>${waits ? `${plural(waits, "session")} in the queue for it` : "no one is in the queue for it"}</p>`}</div>
      <div>${isMine ? html`<${Answers} request=${request} at=${request.id} />` : isOut ? html`<${Act} why=${whyNot()} onClick=${() => attempt(request.id, () => act.withdraw(me, request))}>Withdraw</${Act}>` : login?.scope === "admin" && html`<${Act} why=${whyNot()} onClick=${() => openDialog({ kind: "answer", request })}>Answer for <bdi>${nameOf(data, holder)}</bdi>…</${Act}>`}</div>
    </article>`;
}

const STATUS = { approved: ["check", "approved"], rejected: ["close", "rejected"], withdrawn: ["back", "withdrawn"], moot: ["free", "the reservation ended first,"] };

function Answered({ request, isOut }) {
  const { data, me, now } = store;
  const holder = holderOf(data, request);
  const [icon, text] = request.handedOver ? ["check", "handed over"] : (STATUS[request.status] ?? ["check", request.status]);
  const by = request.answeredBy && request.answeredBy !== holder && request.answeredBy !== request.by ? ` by ${nameOf(data, request.answeredBy)}` : "";
  return html`
    <article class="request answered">
      <${Chip} id=${isOut ? holder : request.by} />
      <div><p>${isOut ? html`You asked <${Name} id=${holder} strong /> for` : html`<${Name} id=${request.by} strong /> asked ${me ? "" : html`<${Name} id=${holder} strong /> `}for`} <${Key} value=${request.key} /></p><p class="soft"><bdi>${request.reason}</bdi></p></div>
      <div class="small soft"><p class="with-icon"><${Icon} name=${icon} />${text}${by} ${clock(request.answeredAt, now)}</p>${request.note && html`<p>“<bdi>${request.note}</bdi>”</p>`}</div>
    </article>`;
}
