// The page begins here: sign in, connect, draw, and draw again after every change.

import { html, render } from "./htm-preact.js";
import { onOtherTab, sessionOf, setRepo, signIn, whoAmI } from "./api.js";
import { nameOf, requestGroups } from "./derive.js";
import { connect, refreshDue, refreshLogin } from "./feed.js";
import { Banner, Lost, ReadOnly, Top } from "./frame.js";
import { Now } from "./now.js";
import { Rail } from "./rail.js";
import { param, parseRoute } from "./route.js";
import { dispatch, serverNow, set, store, subscribe, watch } from "./store.js";

/** Parts that the first view does not need. They are loaded when they are, or when the page has nothing else to do. */
const LATER = ["requests", "waits", "sessions", "history", "hot", "panel", "dialogs", "signin"];
const loaded = new Map();
const failures = new Map();
const FORGET_EVERY = 60;
/** How many frames to wait for a view that is loaded from the server. */
const FRAMES_TO_WAIT = 120;

/** A part that is loaded later; nothing until it is there. If the server does not answer, the next drawing tries again. */
function later(name) {
  if (!loaded.has(name)) {
    loaded.set(name, null);
    // Browsers remember a module that could not be loaded by its address.
    const attempt = failures.has(name) ? `?${failures.get(name)}` : "";
    Promise.all([import(`./${name}.js${attempt}`), laterStyles()]).then(
      ([module]) => {
        loaded.set(name, module.default);
        set({});
      },
      () => {
        failures.set(name, (failures.get(name) ?? 0) + 1);
        loaded.delete(name);
      },
    );
  }
  return loaded.get(name) ?? (() => html`<main></main>`);
}

let styles = null;

/** Loads the styles of these parts, once. */
function laterStyles() {
  styles ??= new Promise((done, fail) => {
    const link = Object.assign(document.createElement("link"), { rel: "stylesheet", href: new URL("./later.css", import.meta.url).href });
    link.addEventListener("load", done);
    link.addEventListener("error", () => {
      styles = null;
      link.remove();
      fail(new Error("no styles"));
    });
    document.head.append(link);
  });
  return styles;
}

function App() {
  if (!store.login) return store.connection === "loading" ? null : html`<${later("signin")} problem=${store.signInProblem} onSignedIn=${begin} />`;
  const View = store.route.view === "now" ? Now : later(store.route.view);
  const hasPanel = store.route.view === "now" && Boolean(param("id"));
  return html`
    <div class=${`page ${store.connection === "live" ? "" : "stale"}`}>
      <${Top} /><${Banner} /><${Lost} /><${ReadOnly} />
      <div class=${`columns view-${store.route.view} ${hasPanel ? "with-panel" : ""}`}><${Rail} /><${View} />${hasPanel && html`<${later("panel")} />`}</div>
      ${store.dialog && html`<${later("dialogs")} key=${store.dialog} dialog=${store.dialog} />`}
    </div>`;
}

let hadDialog = false;

const draw = () => {
  const before = document.activeElement;
  const isClosing = hadDialog && !store.dialog;
  hadDialog = Boolean(store.dialog);
  render(html`<${App} />`, document.body);
  if ((isClosing || !before.isConnected) && document.activeElement === document.body) keepFocus();
  const open = store.login ? requestGroups(store.data, store.me).incoming.length : 0;
  document.title = `${open ? `(${open}) ` : ""}${store.repo ? `${store.repo} – ` : ""}git-dibs`;
};

/** What had the focus is gone: its row, the next request, or the headline gets it, so that the keyboard goes on from there. */
function keepFocus() {
  const next = document.getElementById(`row-${store.focus}`) ?? document.querySelector("main .request:not(.answered)") ?? document.querySelector("main h1");
  next?.focus({ preventScroll: true });
}

/** A person is signed in: choose the repository and load it. */
function begin(login) {
  const wanted = store.route.params.get("repo") ?? store.repo;
  const repo = login.repositories.includes(wanted) ? wanted : (login.repositories[0] ?? null);
  set({ login, signInProblem: null, otherLogin: null, connection: "loading", me: sessionOf(login) });
  choose(repo);
}

function choose(repo) {
  set({ repo });
  setRepo(store.login.repositories.length > 1 ? repo : null);
  dispatch({ type: "reset" });
  connect().then(() => (globalThis.requestIdleCallback ?? setTimeout)(() => LATER.forEach(later)));
}

/** A code in the fragment signs in, and leaves the address at once. */
async function start() {
  const fragment = new URLSearchParams(location.hash.slice(1));
  const code = fragment.get("code");
  if (code) {
    const repo = fragment.get("repo");
    history.replaceState(null, "", repo ? `#/now?repo=${encodeURIComponent(repo)}` : "#/now");
  }
  set({ route: parseRoute(location.hash) });
  return enter(code, fragment.get("session"));
}

/** Signs in with a code, or goes on as who is signed in. With `replace` also if that is someone else. */
async function enter(code, session, replace = undefined) {
  try {
    const login = code ? await signIn({ code, replace }, session) : await whoAmI();
    if (login) return begin(login);
  } catch (refusal) {
    if (refusal.status === undefined) throw refusal;
    if (refusal.body?.signsInAs) {
      const { signedInAs, signsInAs } = refusal.body;
      const other = { signedInAs, signsInAs, stay: () => enter(null), change: () => enter(code, session, true) };
      return set({ connection: "out", otherLogin: other });
    }
    // A browser that is signed in stays so when a code was used twice.
    const login = code ? await whoAmI().catch(() => null) : null;
    if (login) return begin(login);
    set({ signInProblem: refusal });
  }
  return set({ connection: "out", otherLogin: null });
}

addEventListener("hashchange", () => {
  if (new URLSearchParams(location.hash.slice(1)).has("code")) return location.reload();
  const route = parseRoute(location.hash);
  const isOther = route.view !== store.route.view;
  set({ route, focus: isOther ? null : store.focus, problem: null });
  const repo = route.params.get("repo");
  if (repo && store.login?.repositories.includes(repo) && repo !== store.repo) choose(repo);
  if (isOther) {
    scrollTo(0, 0);
    announce(route.view, FRAMES_TO_WAIT);
  }
  return undefined;
});

/** The new view begins at its top, and its headline gets the focus as soon as the view is there. */
function announce(view, frames) {
  if (store.route.view !== view) return;
  const title = document.querySelector(`main.${view} h1`);
  if (title) title.focus({ preventScroll: true });
  else if (frames) requestAnimationFrame(() => announce(view, frames - 1));
}

onOtherTab(refreshLogin);
import("./keyboard.js").then(({ onKeyDown }) => addEventListener("keydown", onKeyDown));

/** Tells the person about a request for something that they hold, while they work in another window. */
watch((before, after, actions) => {
  if (globalThis.Notification?.permission !== "granted" || document.hasFocus()) return;
  for (const event of actions) {
    if (event.event !== "unlockRequested") continue;
    const request = after.requests.get(event.requestId);
    if (request?.holder !== store.me) continue;
    notify(`${nameOf(after, request.by)} asks for ${request.key}`, { body: request.reason, tag: request.id });
  }
});

/** Browsers on phones allow notifications and throw here: only a service worker may show them there. */
function notify(title, options) {
  try {
    const shown = new Notification(title, options);
    shown.onclick = () => focus();
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
  }
}

let seconds = 0;
setInterval(() => {
  seconds += 1;
  set({ now: serverNow() });
  refreshDue();
  if (seconds % FORGET_EVERY === 0) dispatch({ type: "forget", now: serverNow() });
}, 1000);

subscribe(draw);
start();
