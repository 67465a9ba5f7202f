// Where sessions are in each other's way: conflicts by path, counted by the server.

import { html, useEffect, useLayoutEffect, useRef, useState } from "./htm-preact.js";
import { get } from "./api.js";
import { groupByDirectory, nameOf } from "./derive.js";
import { Chip, Choice, Heading, Key, plural } from "./parts.js";
import { link, param, setParams } from "./route.js";
import { store } from "./store.js";
import { shown, splitPath } from "./keys.js";
import { clock, duration, exactly, parseTime } from "./time.js";

const WINDOWS = { hour: "in the last hour", day: "in the last day", week: "in the last week" };
const GROUPS_MAX = 30;
const FILES_MAX = 5;
const CHIPS_MAX = 3;

/** The conflicts in a directory that its listed files do not have. */
const othersIn = (group) => (group.isDirectory ? group.files.slice(0, FILES_MAX).reduce((rest, one) => rest - one.conflicts, group.conflicts) : 0);

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
  const groups = spots?.paths ? groupByDirectory(spots.paths, spots.directories) : [];
  const expired = (spots?.sessions ?? []).filter((one) => one.expired > 0);
  return html`
    <main class="hot">
      <${Heading} ...${headline(spots, groups, span)}>
        <${Choice} label="Time" value=${span} options=${[["hour", "Hour"], ["day", "Day"], ["week", "Week"]]} onChoose=${(name) => setParams({ window: name === "day" ? "" : name })} />
      </${Heading}>
      ${spots?.problem && html`<p class="problem" role="alert">${spots.problem}</p>`}
      <div class="two">
        ${groups.length > 0 ? html`<${Table} groups=${groups.slice(0, GROUPS_MAX)} spots=${spots} span=${span} />` : html`<p class="nothing soft">${spots ? "When a session asks for something that another session holds, it is counted here." : "Counting…"}</p>`}
        ${expired.length > 0 && html`<section><h2>Expired without releasing</h2>
          ${expired.slice(0, 20).map((one) => html`<p class="expired-session" key=${one.sessionId}><${Chip} id=${one.sessionId} name=${one.sessionName} /><bdi class="name">${one.sessionName ?? one.sessionId}</bdi><b class="number">${one.expired}</b></p>`)}
          <p class="small soft">A session that does not release keeps others waiting until its time is up. Start agents with <code>git dibs run</code>: it releases everything when the agent ends.</p></section>`}
      </div>
    </main>`;
}

function headline(spots, groups, span) {
  if (!spots || spots.problem) return { title: "Hot spots" };
  const total = spots.totalConflicts;
  if (!total || !groups.length) return { title: `No conflicts ${WINDOWS[span]}`, lead: "No session asked for something that another session held." };
  const [first] = groups;
  const average = first.waits ? `Average wait ${exactly((first.waited / first.waits) * 1000)}. ` : "";
  return { title: html`<code class="in-title">${shown(first.name)}</code> caused ${first.conflicts.toLocaleString("en")} of ${plural(total, "conflict")} ${WINDOWS[span]}`, lead: `${average}Divide the work so that only one session at a time needs it.` };
}

/** What one bar of a chart stands for. */
const STEPS = { hour: "By 10 min", day: "By hour", week: "By day" };

function Table({ groups, spots, span }) {
  const most = groups[0].conflicts;
  const rest = spots.totalConflicts - groups.reduce((total, group) => total + group.conflicts, 0);
  const chart = { since: parseTime(spots.since), step: spots.stepSeconds * 1000, highest: Math.max(1, ...groups.flatMap((group) => group.byStep)) };
  return html`
    <table class="plain"><thead><tr><th>Path</th><th class="h-count">Conflicts</th><th class="h-steps">${STEPS[span]}</th><th class="number h-wait">Average wait</th><th class="h-between">Between</th></tr></thead>
      <tbody>${groups.flatMap((group, n) => [
        html`<tr key=${group.name} class="hot-group"><td><a href=${link("history", { path: group.isDirectory ? `${group.name}**` : group.name })}><${Key} value=${group.name} whole=${shown(group.name)} /></a></td><${Cells} one=${group} most=${most} chart=${chart} isFirst=${n === 0} average=${group.waits ? group.waited / group.waits : null} /></tr>`,
        ...group.files.slice(0, FILES_MAX).map((one) => html`<tr key=${one.key}><td class="hot-file"><a href=${link("history", { path: one.key })}><${Key} value=${one.key} whole=${splitPath(shown(one.key)).leaf} /></a></td><${Cells} one=${one} most=${most} chart=${chart} average=${one.waits ? one.averageWaitSeconds : null} /></tr>`),
        othersIn(group) > 0 && html`<tr key=${`${group.name} more`}><td class="hot-file soft">Other paths</td><${Cells} one=${{ conflicts: othersIn(group) }} most=${most} /></tr>`,
      ])}${rest > 0 && html`<tr key="rest"><td class="soft">Other paths</td><${Cells} one=${{ conflicts: rest }} most=${most} /></tr>`}</tbody></table>`;
}

function Cells({ one, most, chart, isFirst = false, average = null }) {
  const bar = useRef(null);
  const { conflicts } = one;
  useLayoutEffect(() => bar.current.style.setProperty("--share", (conflicts / most).toFixed(4)), [conflicts, most]);
  return html`
    <td class="h-count"><span class="hot-bar"><i ref=${bar} class=${isFirst ? "first" : ""}></i>${conflicts.toLocaleString("en")}</span></td>
    <td class="h-steps">${one.byStep && html`<${Steps} counts=${one.byStep} chart=${chart} isFirst=${isFirst} />`}</td>
    <td class="number h-wait" title=${average === null ? undefined : `${plural(one.waits, "request")} waited`}>${average === null ? "" : duration(average * 1000)}</td>
    <td class="h-between">${one.between && html`<${Between} sessions=${one.between} />`}</td>`;
}

const CHART = { width: 120, height: 20, gap: 1.5 };

/** One bar for each step of the time. All rows have the same scale. */
function Steps({ counts, chart, isFirst }) {
  const width = CHART.width / counts.length;
  const peak = counts.indexOf(Math.max(...counts));
  const label = `Most conflicts at ${clock(chart.since + peak * chart.step, store.now)}: ${counts[peak]}`;
  return html`
    <svg class=${isFirst ? "steps-chart first" : "steps-chart"} viewBox=${`0 0 ${CHART.width} ${CHART.height}`} width=${CHART.width} height=${CHART.height} role="img" aria-label=${label}><title>${label}</title>
      ${counts.map((count, n) => {
        const height = count ? Math.max(2, (count / chart.highest) * CHART.height) : 1;
        return html`<rect key=${n} x=${(n * width).toFixed(1)} width=${(width - CHART.gap).toFixed(1)} y=${(CHART.height - height).toFixed(1)} height=${height.toFixed(1)} class=${count ? "" : "none"} />`;
      })}</svg>`;
}

/** The sessions that competed for it. */
function Between({ sessions }) {
  const nameIn = (one) => (one.sessionId === store.me ? "You" : (one.sessionName ?? nameOf(store.data, one.sessionId)));
  const names = sessions.map(nameIn).join(", ");
  const more = sessions.length - CHIPS_MAX;
  return html`<span class="chips" title=${names}>${sessions.slice(0, CHIPS_MAX).map((one) => html`<${Chip} key=${one.sessionId} id=${one.sessionId} name=${one.sessionId === store.me ? null : one.sessionName} />`)}${more > 0 && html`<span class="quiet">+${more}</span>`}<span class="sr">${names}</span></span>`;
}
