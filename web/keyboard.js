// Keys that work everywhere outside of fields.

import { act } from "./api.js";
import { holderOf } from "./derive.js";
import { openDialog } from "./actions.js";
import { attempt, copyText, whyNot } from "./parts.js";
import { VIEWS, link, param, setParams } from "./route.js";
import { store } from "./store.js";

export function onKeyDown(event) {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || store.dialog || !store.login) return;
  const isField = event.target.closest?.("input, textarea, select");
  if (isField) {
    if (event.key === "Escape" && event.target.id === "filter") {
      setParams({ q: "", kind: "" });
      event.target.blur();
    } else if (event.key === "ArrowDown" && event.target.id === "filter") {
      enterRows(event);
    }
    return;
  }
  const key = event.key;
  const isNowhere = event.target === document.body || event.target.tagName === "H1";
  if ((key === "ArrowDown" || key === "ArrowUp") && isNowhere && store.route.view === "now") return enterRows(event);
  if (VIEWS[Number(key) - 1]) return go(event, () => (location.hash = link(VIEWS[Number(key) - 1])));
  const action = KEYS[key];
  if (action) go(event, action);
}

/** Moves the focus into the list of what is held. */
function enterRows(event) {
  const row = document.querySelector("#rows [role=row][tabindex='0'], #rows [role=row][tabindex]");
  if (!row) return;
  event.preventDefault();
  row.focus();
}

function go(event, action) {
  if (action() !== false) event.preventDefault();
}

const KEYS = {
  "/": () => {
    if (store.route.view !== "now") location.hash = link("now");
    requestAnimationFrame(() => requestAnimationFrame(() => document.getElementById("filter")?.focus()));
  },
  "?": () => openDialog({ kind: "keys" }),
  g: () => (store.route.view === "now" ? setParams({ as: param("as") === "table" ? "" : "table" }) : false),
  c: () => {
    copyText(location.href);
  },
  Escape: () => (param("id") ? setParams({ id: "" }) : param("q") ? setParams({ q: "" }) : false),
  a: () => answer((holder, request) => attempt(request.id, () => act.approve(holder, request))),
  h: () => answer((holder, request) => attempt(request.id, () => act.handOver(holder, request))),
  r: () => answer((_, request) => openDialog({ kind: "reject", request })),
};

/** Answers the request that has the focus, if it is to me. */
function answer(action) {
  const request = store.data.requests.get(document.activeElement?.closest?.("[id^=request-]")?.id.slice(8));
  if (!request || request.status !== "pending" || whyNot()) return false;
  const holder = holderOf(store.data, request);
  return holder === store.me ? (action(holder, request), true) : false;
}
