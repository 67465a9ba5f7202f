// Where sessions are in each other's way: conflicts by path, counted by the server.

import { html, useEffect, useLayoutEffect, useRef, useState } from "./htm-preact.js";
import { get } from "./api.js";
import { Chip, Choice, Heading, Key, plural } from "./parts.js";
import { link, param, setParams } from "./route.js";
import { store } from "./store.js";
import { shown, splitPath, kindOf } from "./keys.js";
import { duration, exactly } from "./time.js";

const WINDOWS = { hour: "in the last hour", day: "today", week: "this week" };
const GROUPS_MAX = 30;

export default function Hot() {
  const span = WINDOWS[param("window")] ? param("window") : "day";
  const [spots, setSpots] = useState(null);
  useEffect(() => {
    let isGone = false;
    const read = () => get("api/hotspots", { window: span }).then((answer) => !isGone && setSpots(answer)).catch((refusal) => !isGone && setSpots((old) => old ?? { problem: refusal.message }));
    read();
    const timer = setInterval(read, 10_000);
    return () => {
      isGone = true;
      clearInterval(timer);
    };
  }, [span, store.repo]);
  const groups = spots?.paths ? groupByDirectory(spots) : [];
  const expired = (spots?.sessions ?? []).filter((one) => one.expired > 0);
  return html`
    <main class="hot">
      <${Heading} ...${headline(spots, groups, span)}>
        <${Choice} label="Time" value=${span} options=${[["hour", "Hour"], ["day", "Day"], ["week", "Week"]]} onChoose=${(name) => setParams({ window: name === "day" ? "" : name })} />
      </${Heading}>
      ${spots?.problem && html`<p class="problem" role="alert">${spots.problem}</p>`}
      <div class="two">
        ${groups.length > 0 ? html`<${Table} groups=${groups.slice(0, GROUPS_MAX)} />` : html`<p class="nothing soft">${spots ? "When a session wants what another one holds, it is counted here." : "Counting…"}</p>`}
        ${expired.length > 0 && html`<section><h2>Expired without releasing</h2>
          ${expired.slice(0, 20).map((one) => html`<p class="expired" key=${one.sessionId}><${Chip} id=${one.sessionId} /><bdi class="name">${one.sessionName ?? one.sessionId}</bdi><b class="number">${one.expired}</b></p>`)}
          <p class="small soft">An agent that lets its time run out keeps others waiting for the rest of it. Start it with <code>git dibs run</code>, which lets go when the agent ends.</p></section>`}
      </div>
    </main>`;
}

/** Directories with their files, names alone; the most conflicts first. */
function groupByDirectory({ paths, directories }) {
  const groups = new Map();
  for (const one of paths) {
    const dirs = kindOf(one.key) === "path" ? splitPath(shown(one.key)).dirs : [];
    const name = dirs.length ? `${dirs.join("/")}/` : one.key;
    if (!groups.has(name)) groups.set(name, { name, conflicts: 0, waits: 0, waited: 0, files: [] });
    const group = groups.get(name);
    group.conflicts += one.conflicts;
    group.waits += one.waits ?? 0;
    group.waited += (one.averageWaitSeconds ?? 0) * (one.waits ?? 0);
    if (dirs.length) group.files.push(one);
  }
  // The server also counts what no longer has a line of its own.
  for (const { directory, conflicts } of directories ?? []) {
    const group = groups.get(directory.endsWith("/") ? directory : `${directory}/`);
    if (group) group.conflicts = Math.max(group.conflicts, conflicts);
  }
  const sorted = [...groups.values()].sort((a, b) => b.conflicts - a.conflicts || (a.name < b.name ? -1 : 1));
  for (const group of sorted) group.files.sort((a, b) => b.conflicts - a.conflicts);
  return sorted;
}

function headline(spots, groups, span) {
  if (!spots || spots.problem) return { title: "Hot spots" };
  const total = spots.totalConflicts ?? groups.reduce((sum, one) => sum + one.conflicts, 0);
  if (!total || !groups.length) return { title: `No conflicts ${WINDOWS[span]}`, lead: "No session wanted what another one held." };
  const [first] = groups;
  const average = first.waits ? `Average wait ${exactly((first.waited / first.waits) * 1000)}. ` : "";
  return { title: html`<code class="in-title">${shown(first.name)}</code> caused ${first.conflicts.toLocaleString("en")} of ${plural(total, "conflict")} ${WINDOWS[span]}`, lead: `${average}Divide the work so that one session at a time needs it.` };
}

function Table({ groups }) {
  const most = groups[0].conflicts;
  return html`
    <table class="plain"><thead><tr><th>Path</th><th>Conflicts</th><th class="number">Waits</th><th class="number">Average wait</th></tr></thead>
      <tbody>${groups.flatMap((group, n) => [
        html`<tr key=${group.name} class="hot-group"><td><a href=${link("history", { path: group.files.length ? `${group.name}**` : shown(group.name) })}><${Key} value=${group.name} whole=${shown(group.name)} /></a></td><${Cells} count=${group.conflicts} most=${most} isFirst=${n === 0} waits=${group.waits} average=${group.waits ? group.waited / group.waits : null} /></tr>`,
        ...group.files.slice(0, 5).filter(() => group.files.length > 0).map((one) => html`<tr key=${one.key}><td class="hot-file"><a href=${link("history", { path: shown(one.key) })}><${Key} value=${one.key} whole=${splitPath(shown(one.key)).leaf} /></a></td><${Cells} count=${one.conflicts} most=${most} waits=${one.waits} average=${one.waits ? one.averageWaitSeconds : null} /></tr>`),
      ])}</tbody></table>`;
}

function Cells({ count, most, isFirst = false, waits, average }) {
  const bar = useRef(null);
  useLayoutEffect(() => bar.current.style.setProperty("--share", (count / most).toFixed(4)), [count, most]);
  return html`<td><span class="hot-bar"><i ref=${bar} class=${isFirst ? "first" : ""}></i>${count.toLocaleString("en")}</span></td><td class="number">${waits || ""}</td><td class="number">${average === null || average === undefined ? "" : duration(average * 1000)}</td>`;
}

