// Where sessions are in each other's way: conflicts by path, counted by the server.

import { html, useEffect, useLayoutEffect, useRef, useState } from "./htm-preact.js";
import { get } from "./api.js";
import { groupByDirectory } from "./derive.js";
import { Chip, Choice, Heading, Key, plural } from "./parts.js";
import { link, param, setParams } from "./route.js";
import { store } from "./store.js";
import { shown, splitPath } from "./keys.js";
import { duration, exactly } from "./time.js";

const WINDOWS = { hour: "in the last hour", day: "in the last day", week: "in the last week" };
const GROUPS_MAX = 30;
const FILES_MAX = 5;

const sum = (files) => files.reduce((count, one) => count + one.conflicts, 0);

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
  const groups = spots?.paths ? groupByDirectory(spots.paths) : [];
  const expired = (spots?.sessions ?? []).filter((one) => one.expired > 0);
  return html`
    <main class="hot">
      <${Heading} ...${headline(spots, groups, span)}>
        <${Choice} label="Time" value=${span} options=${[["hour", "Hour"], ["day", "Day"], ["week", "Week"]]} onChoose=${(name) => setParams({ window: name === "day" ? "" : name })} />
      </${Heading}>
      ${spots?.problem && html`<p class="problem" role="alert">${spots.problem}</p>`}
      <div class="two">
        ${groups.length > 0 ? html`<${Table} groups=${groups.slice(0, GROUPS_MAX)} total=${spots.totalConflicts} />` : html`<p class="nothing soft">${spots ? "When a session wants what another one holds, it is counted here." : "Counting…"}</p>`}
        ${expired.length > 0 && html`<section><h2>Expired without releasing</h2>
          ${expired.slice(0, 20).map((one) => html`<p class="expired-session" key=${one.sessionId}><${Chip} id=${one.sessionId} /><bdi class="name">${one.sessionName ?? one.sessionId}</bdi><b class="number">${one.expired}</b></p>`)}
          <p class="small soft">An agent that lets its time run out keeps others waiting for the rest of it. Start it with <code>git dibs run</code>, which lets go when the agent ends.</p></section>`}
      </div>
    </main>`;
}

function headline(spots, groups, span) {
  if (!spots || spots.problem) return { title: "Hot spots" };
  const total = spots.totalConflicts;
  if (!total || !groups.length) return { title: `No conflicts ${WINDOWS[span]}`, lead: "No session wanted what another one held." };
  const [first] = groups;
  const average = first.waits ? `Average wait ${exactly((first.waited / first.waits) * 1000)}. ` : "";
  return { title: html`<code class="in-title">${shown(first.name)}</code> caused ${first.conflicts.toLocaleString("en")} of ${plural(total, "conflict")} ${WINDOWS[span]}`, lead: `${average}Divide the work so that one session at a time needs it.` };
}

function Table({ groups, total }) {
  const most = groups[0].conflicts;
  const rest = total - groups.reduce((sum, group) => sum + group.conflicts, 0);
  return html`
    <table class="plain"><thead><tr><th>Path</th><th>Conflicts</th><th class="number">Waits</th><th class="number">Average wait</th></tr></thead>
      <tbody>${groups.flatMap((group, n) => [
        html`<tr key=${group.name} class="hot-group"><td><a href=${link("history", { path: group.files.length ? `${group.name}**` : shown(group.name) })}><${Key} value=${group.name} whole=${shown(group.name)} /></a></td><${Cells} count=${group.conflicts} most=${most} isFirst=${n === 0} waits=${group.waits} average=${group.waits ? group.waited / group.waits : null} /></tr>`,
        ...group.files.slice(0, FILES_MAX).map((one) => html`<tr key=${one.key}><td class="hot-file"><a href=${link("history", { path: shown(one.key) })}><${Key} value=${one.key} whole=${splitPath(shown(one.key)).leaf} /></a></td><${Cells} count=${one.conflicts} most=${most} waits=${one.waits} average=${one.waits ? one.averageWaitSeconds : null} /></tr>`),
        group.files.length > FILES_MAX && html`<tr key=${`${group.name} more`}><td class="hot-file soft">${plural(group.files.length - FILES_MAX, "more path")}</td><${Cells} count=${sum(group.files.slice(FILES_MAX))} most=${most} /></tr>`,
      ])}${rest > 0 && html`<tr key="rest"><td class="soft">Other paths</td><${Cells} count=${rest} most=${most} /></tr>`}</tbody></table>`;
}

function Cells({ count, most, isFirst = false, waits, average }) {
  const bar = useRef(null);
  useLayoutEffect(() => bar.current.style.setProperty("--share", (count / most).toFixed(4)), [count, most]);
  return html`<td><span class="hot-bar"><i ref=${bar} class=${isFirst ? "first" : ""}></i>${count.toLocaleString("en")}</span></td><td class="number">${waits || ""}</td><td class="number">${average === null || average === undefined ? "" : duration(average * 1000)}</td>`;
}

