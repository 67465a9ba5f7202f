// Questions before something is done. One dialog is open at a time, in `store.dialog`.

import { html, useEffect, useRef, useState } from "./htm-preact.js";
import { PAUSE_SECONDS, act } from "./api.js";
import { heldBy, holderOf, listNames, nameOf, waitsBehind, whoIs } from "./derive.js";
import { openDialog } from "./actions.js";
import { shown } from "./keys.js";
import { Act, plural, whyNot } from "./parts.js";
import { set, store } from "./store.js";

const close = () => set({ dialog: null });

const keyOf = (one) => html`<code class="in-title">${shown(one.key)}</code>`;

/** What each dialog says. `run` gets the text of its field. */
const DIALOGS = {
  ask: ({ one }) => {
    const name = nameOf(store.data, one.sessionId);
    return {
      title: html`Ask <bdi>${name}</bdi> for ${keyOf(one)}?`,
      label: "Reason (required)",
      isRequired: true,
      no: "Cancel",
      yes: "Ask",
      run: (reason) => act.ask(store.me, one, reason),
    };
  },
  override: ({ one }) => {
    const name = whoIs(store.data, one.sessionId, null);
    const next = waitsBehind(store.data, one)[0];
    return {
      title: html`Take ${keyOf(one)} away from <bdi>${name}</bdi>?`,
      text: html`<bdi>${name}</bdi> is told who did it and why, and cannot commit there once another session holds it.${next && html` <bdi>${nameOf(store.data, next.sessionId)}</bdi> is first in the queue.`}`,
      label: "Reason (required)",
      isRequired: true,
      no: html`Keep it with <bdi>${name}</bdi>`,
      yes: "Take it away",
      isDanger: true,
      run: (reason) => act.override(one, reason),
    };
  },
  reject: ({ request }) => {
    const name = nameOf(store.data, request.by);
    const holder = holderOf(store.data, request);
    return {
      title: html`Reject <bdi>${name}</bdi>’s request?`,
      text: holder !== store.me && html`You answer for <bdi>${nameOf(store.data, holder)}</bdi>, as admin.`,
      label: html`Note for <bdi>${name}</bdi>`,
      no: "Cancel",
      yes: "Reject",
      run: (note) => act.reject(holder, request, note),
    };
  },
  answer: ({ request }) => {
    const holder = holderOf(store.data, request);
    return {
      title: html`Answer for <bdi>${nameOf(store.data, holder)}</bdi>?`,
      text: html`<bdi>${nameOf(store.data, request.by)}</bdi> asks for <code>${shown(request.key)}</code>: <bdi>${request.reason}</bdi>. Hand over gives it to the session that asks. Approve releases it to the next session in the queue. The answer is recorded as yours.`,
      no: "Cancel",
      more: [["Reject…", () => openDialog({ kind: "reject", request })]],
      choices: [
        ["Approve", "", () => act.approve(holder, request)],
        ["Hand over", "primary", () => act.handOver(holder, request)],
      ],
    };
  },
  end: ({ session }) => {
    const name = whoIs(store.data, session.id, null);
    const held = heldBy(store.data).get(session.id) ?? [];
    const waiting = new Set(held.flatMap((one) => waitsBehind(store.data, one).map((wait) => wait.sessionId)));
    const next = listNames([...waiting].map((id) => nameOf(store.data, id)));
    return {
      title: html`End <bdi>${name}</bdi>’s session?`,
      text: html`${plural(session.held, "reservation is", "reservations are")} released${next && html`, <bdi>${next}</bdi> ${waiting.size === 1 ? "moves" : "move"} up`}. <bdi>${name}</bdi>’s token stops working.`,
      no: "Leave it",
      yes: "End session",
      isDanger: true,
      run: () => act.end(session.id),
    };
  },
  pause: ({ feature }) => {
    const features = [...new Set([...store.data.sessions.values()].map((one) => one.feature).filter(Boolean))].sort();
    return {
      title: feature ? html`Pause <bdi>${feature}</bdi>?` : "Pause a feature?",
      text: `Its sessions cannot reserve or commit until it is resumed. The pause ends after ${PAUSE_SECONDS / 3600} hours at the latest.`,
      field: feature ? null : { label: "Feature", options: features },
      label: "Reason (required)",
      isRequired: true,
      no: "Cancel",
      yes: "Pause",
      run: (reason, chosen) => act.pause(feature ?? chosen, reason, store.login.name ?? store.login.subject),
    };
  },
  resume: ({ pause }) => ({
    title: html`Resume <bdi>${pause.feature}</bdi>?`,
    text: pause.reason && html`Reason for the pause: <bdi>${pause.reason}</bdi>`,
    no: "Cancel",
    yes: "Resume",
    run: () => act.resume(pause, store.me, store.login.name ?? store.login.subject),
  }),
  keys: () => ({ title: "Keyboard shortcuts", content: html`<${Keys} />`, no: "Close" }),
};

const KEYS = [
  ["/", "filter"],
  ["Esc", "clear the filter, close"],
  ["↑ ↓", "rows"],
  ["← →", "fold, unfold a directory"],
  ["Enter", "details"],
  ["Space", "open the padlock"],
  ["1 – 6", "views"],
  ["g", "tree or table"],
  ["a h r", "approve, hand over, reject the focused request"],
  ["c", "copy a link"],
  ["?", "this list"],
];

const Keys = () => html`<dl class="keys">${KEYS.map(([keys, what]) => html`<dt>${keys.split(" ").map((one) => html`<kbd>${one}</kbd> `)}</dt><dd>${what}</dd>`)}</dl>`;

/** The dialog that is open. It is made anew for each question. */
export default function Dialog({ dialog }) {
  const element = useRef(null);
  const [text, setText] = useState("");
  const [chosen, setChosen] = useState("");
  const [problem, setProblem] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const opener = useRef(document.activeElement);
  useEffect(() => {
    const shownDialog = element.current;
    shownDialog.showModal();
    const back = opener.current;
    // What opened it may be gone, like the menu of a padlock; then its row gets the focus, or the headline.
    return () => {
      // What is behind an open dialog cannot get the focus.
      shownDialog.close();
      (back?.isConnected && back !== document.body ? back : (document.getElementById(`row-${store.focus}`) ?? document.querySelector("main h1")))?.focus({ preventScroll: true });
    };
  }, []);
  const closeThis = () => store.dialog === dialog && close();
  const about = DIALOGS[dialog.kind](dialog);
  const run = async (action) => {
    setBusy(true);
    setProblem(null);
    try {
      await action();
      if (store.dialog === dialog) close();
    } catch (refusal) {
      setProblem(refusal.message);
      setBusy(false);
    }
  };
  const submit = (event) => {
    event.preventDefault();
    if (about.run && !isBusy && !isIncomplete) run(() => about.run(text.trim(), chosen.trim()));
  };
  const isIncomplete = (about.isRequired && !text.trim()) || (about.field && !chosen.trim());
  const why = about.run || about.choices ? whyNot() : null;
  return html`
    <dialog ref=${element} class="dialog" aria-labelledby="dialog-title" onClose=${closeThis} onCancel=${closeThis}>
      <form method="dialog" onSubmit=${submit}>
        <h1 id="dialog-title">${about.title}</h1>
        ${about.text && html`<p class="soft">${about.text}</p>`}
        ${about.content}
        ${about.field && html`
          <label>${about.field.label}
            <input list="dialog-options" value=${chosen} maxlength="200" onInput=${(event) => setChosen(event.target.value)} />
            <datalist id="dialog-options">${about.field.options.map((one) => html`<option value=${one} />`)}</datalist>
          </label>`}
        ${about.label && html`<label>${about.label}<textarea rows="2" maxlength="1000" value=${text} onInput=${(event) => setText(event.target.value)} onKeyDown=${(event) => event.key === "Enter" && (event.metaKey || event.ctrlKey) && submit(event)}></textarea></label>`}
        ${problem && html`<p class="problem" role="alert">${problem}</p>`}
        <div class="actions end">
          ${about.more?.map(([name, action]) => html`<${Act} kind="quiet" onClick=${action}>${name}</${Act}>`)}
          <button type="button" class="button" autofocus=${!about.label && !about.field} onClick=${close}><span class="label">${about.no}</span></button>
          ${about.choices?.map(([name, kind, action]) => html`<${Act} kind=${kind} why=${why} disabled=${isBusy} onClick=${() => run(action)}>${name}</${Act}>`)}
          ${about.yes && html`<button type="submit" class=${`button ${about.isDanger ? "danger full" : "primary"}`} disabled=${isBusy || isIncomplete || Boolean(why)} title=${why ?? undefined}>${about.yes}</button>`}
        </div>
      </form>
    </dialog>`;
}
