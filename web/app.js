// The page begins here: sign in, connect, draw, and draw again after every change.

import { html, render } from "./htm-preact.js";
import { ownSession, setRepo, signIn, whoAmI } from "./api.js";
import { nameOf, requestGroups } from "./derive.js";
import { connect, refreshDue } from "./feed.js";
import { Banner, Lost, Top } from "./frame.js";
import { onKeyDown } from "./keyboard.js";
import { Now } from "./now.js";
import { Rail } from "./rail.js";
import { param, parseRoute } from "./route.js";
import { dispatch, serverNow, set, store, subscribe, watch } from "./store.js";

/** Parts that the first view does not need. They are loaded when they are, or when the page has nothing else to do. */
const LATER = ["requests", "waits", "sessions", "history", "hot", "panel", "dialogs", "signin"];
const loaded = new Map();
const failures = new Map();
const FORGET_EVERY = 60;

/** A part that is loaded later; nothing until it is there. If the server does not answer, the next drawing tries again. */
function later(name) {
  if (!loaded.has(name)) {
    loaded.set(name, null);
    // Browsers remember a module that could not be loaded by its address.
    const attempt = failures.has(name) ? `?${failures.get(name)}` : "";
    import(`./${name}.js${attempt}`).then(
      (module) => {
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

let signInProblem = null;

function App() {
  if (!store.login) return store.connection === "loading" ? null : html`<${later("signin")} problem=${signInProblem} onSignedIn=${begin} />`;
  const View = store.route.view === "now" ? Now : later(store.route.view);
  const hasPanel = store.route.view === "now" && Boolean(param("id"));
  return html`
    <div class=${`page ${store.connection === "live" ? "" : "stale"}`}>
      <${Top} /><${Banner} /><${Lost} />
      <div class=${`columns view-${store.route.view} ${hasPanel ? "with-panel" : ""}`}><${Rail} /><${View} />${hasPanel && html`<${later("panel")} />`}</div>
      ${store.dialog && html`<${later("dialogs")} key=${store.dialog} dialog=${store.dialog} />`}
    </div>`;
}

const draw = () => {
  render(html`<${App} />`, document.body);
  const open = store.login ? requestGroups(store.data, store.me).incoming.length : 0;
  document.title = `${open ? `(${open}) ` : ""}${store.repo ? `${store.repo} – ` : ""}git-dibs`;
};

/** A person is signed in: choose the repository and load it. */
function begin(login) {
  signInProblem = null;
  const wanted = store.route.params.get("repo") ?? store.repo;
  const repo = login.repositories.includes(wanted) ? wanted : (login.repositories[0] ?? null);
  set({ login, connection: "loading", me: login.sessionId ?? (login.scope === "admin" ? ownSession.get() : null) });
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
    ownSession.set(fragment.get("session"));
  }
  set({ route: parseRoute(location.hash) });
  try {
    const login = code ? await signIn({ code }) : await whoAmI();
    if (login) return begin(login);
  } catch (refusal) {
    if (refusal.status === undefined) throw refusal;
    // A browser that is signed in stays so when a code was used twice.
    const login = code ? await whoAmI().catch(() => null) : null;
    if (login) return begin(login);
    signInProblem = refusal;
  }
  return set({ connection: "out" });
}

addEventListener("hashchange", () => {
  if (new URLSearchParams(location.hash.slice(1)).has("code")) return location.reload();
  const route = parseRoute(location.hash);
  const isOther = route.view !== store.route.view;
  set({ route, focus: isOther ? null : store.focus, problem: null });
  const repo = route.params.get("repo");
  if (repo && store.login?.repositories.includes(repo) && repo !== store.repo) choose(repo);
  // The new view is announced, and begins at its top.
  if (isOther) {
    scrollTo(0, 0);
    requestAnimationFrame(() => requestAnimationFrame(() => document.querySelector("main h1")?.focus({ preventScroll: true })));
  }
  return undefined;
});
addEventListener("popstate", () => set({ route: parseRoute(location.hash) }));
addEventListener("keydown", onKeyDown);

/** Tells the person about a request for something that they hold. */
watch((before, after, actions) => {
  if (globalThis.Notification?.permission !== "granted" || !document.hidden) return;
  for (const event of actions) {
    if (event.event !== "unlockRequested") continue;
    const request = after.requests.get(event.requestId);
    if (request?.holder !== store.me) continue;
    const shown = new Notification(`${nameOf(after, request.by)} asks for ${request.key}`, { body: request.reason, tag: request.id });
    shown.onclick = () => focus();
  }
});

let seconds = 0;
setInterval(() => {
  seconds += 1;
  set({ now: serverNow() });
  refreshDue();
  if (seconds % FORGET_EVERY === 0) dispatch({ type: "forget", now: serverNow() });
}, 1000);

subscribe(draw);
start();
