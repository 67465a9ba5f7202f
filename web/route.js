// The address of what is shown: "#/now?q=session:bo&kind=name". A link to it shows the same.

import { set, store } from "./store.js";

export const VIEWS = ["now", "requests", "waits", "sessions", "history", "hot"];

/** What the fragment says. */
export function parseRoute(fragment) {
  const [path, query = ""] = fragment.replace(/^#\/?/, "").split("?", 2);
  return { view: VIEWS.includes(path) ? path : "now", params: new URLSearchParams(query) };
}

export function link(view, params = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) if (value) query.set(name, value);
  if (!query.has("repo") && store.repo && (store.login?.repositories.length ?? 0) > 1) query.set("repo", store.repo);
  const text = query.toString();
  return `#/${view}${text ? `?${text}` : ""}`;
}

/** Changes some parameters of the current view. Only a change that a person would undo with "back" makes an entry. */
export function setParams(change, { push = false } = {}) {
  const params = Object.fromEntries(store.route.params);
  const next = link(store.route.view, { ...params, ...change });
  if (next === location.hash) return;
  history[push ? "pushState" : "replaceState"](null, "", next);
  set({ route: parseRoute(location.hash) });
}

export function param(name) {
  return store.route.params.get(name) ?? "";
}
