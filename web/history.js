// A timeline of who held what when.

import { html, useEffect, useLayoutEffect, useRef, useState } from "./htm-preact.js";
import { get } from "./api.js";
import { historyFilter, hue, listNames, nameOf } from "./derive.js";
import { readRefusals } from "./feed.js";
import { shown, typed } from "./keys.js";
import { Chip, Choice, Command, Heading, Icon, Key, Name, plural } from "./parts.js";
import { link, param, setParams } from "./route.js";
import { serverNow, store, watch } from "./store.js";
import { bars, rowsOf, ticks } from "./timeline.js";
import { clock, exactly, parseTime } from "./time.js";

const SPANS = { "30m": [30, "30 minutes"], "2h": [120, "2 hours"], "1d": [1440, "day"] };
const PAGE = 1000;
/** Pages that are read for one picture, at most. */
const PAGES_MAX = 20;
const ROWS_MAX = 60;
const LANES_MAX = 4;
/** A bar of a smaller share of the picture has no room for its name. */
const SHORT_SHARE = 0.03;
const NARROW = matchMedia("(max-width: 860px)");

export default function History() {
  const span = SPANS[param("span")] ? param("span") : "30m";
  const length = SPANS[span][0] * 60_000;
  const by = param("by") === "session" ? "session" : "path";
  const end = Number(param("end")) || store.now;
  const from = end - length;
  const { path, session } = { path: param("path"), session: param("session") };
  const log = useLog(path, session, from);
  const [tip, setTip] = useState(null);
  useEffect(() => {
    readRefusals();
  }, []);
  const held = store.data.order.filter((one) => (!session || one.sessionId === session) && (!path || shown(one.key) === path || log.keys.has(one.key)));
  const all = bars(log.events, held, from, end);
  const rows = rowsOf(all, by);
  const isLatest = !param("end");
  const box = useRef(null);
  // In a narrow window the picture is wider than its place, and begins with what is newest.
  useLayoutEffect(() => {
    if (box.current && isLatest) box.current.scrollLeft = box.current.scrollWidth;
  }, [isLatest, rows.length > 0, span, by, NARROW.matches]);
  const title = isLatest ? `The last ${SPANS[span][1]}` : `${clock(from, store.now)} to ${clock(end, store.now)}`;
  const move = (direction) => {
    const next = end + (direction * length * 3) / 4;
    const isNow = next > serverNow() - length / 4;
    setParams({ end: isNow ? "" : String(Math.round(next)) }, { push: true });
  };
  return html`
    <main class="history">
      <${Heading} title=${title} lead=${lead(path, session)}>
        <${Choice} label="Rows" value=${by} options=${[["path", "By path"], ["session", "By session"]]} onChoose=${(name) => setParams({ by: name === "path" ? "" : name })} />
        <${Choice} label="Span" value=${span} options=${[["30m", "30 min"], ["2h", "2 h"], ["1d", "Day"]]} onChoose=${(name) => setParams({ span: name === "30m" ? "" : name })} />
        <button type="button" class="button" onClick=${() => move(-1)}><${Icon} name="back" />Earlier</button>
        ${!isLatest && html`<button type="button" class="button" onClick=${() => move(1)}>Later<${Icon} name="right" /></button>`}
      </${Heading}>
      <${Field} path=${path} session=${session} />
      ${rows.length > 0 ? html`<div class="scroll" ref=${box}><${Chart} rows=${rows.slice(0, ROWS_MAX)} by=${by} from=${from} end=${end} isLatest=${isLatest} setTip=${setTip} /></div>` : html`<p class="nothing soft">${log.isFailed ? "The history cannot be read now." : log.isLoading ? "Reading the history…" : "Nothing was held in this time."}</p>`}
      ${rows.length > ROWS_MAX && html`<p class="nothing soft">${plural(rows.length - ROWS_MAX, "more row")}. Choose one path, one session, or a shorter time.</p>`}
      ${log.isCut && html`<p class="nothing soft">There are more events than this picture can show. Choose one path, one session, or a shorter time.</p>`}
      <${Legend} />
      <p class="older soft">The ledger keeps the complete history: <${Command} text=${path ? `git dibs log ${typed(path)}` : "git dibs log"} /> <${Command} text="git dibs ledger show-path src/a.rs" /></p>
      ${tip && html`<${Tip} tip=${tip} />`}
    </main>`;
}

/** Chooses a path or a session. The text takes effect with Enter, or when the field is left. */
function Field({ path, session }) {
  const current = session ? `session:${nameOf(store.data, session)}` : path;
  const [text, setText] = useState(current);
  useEffect(() => setText(current), [path, session]);
  const choose = (event) => {
    event.preventDefault();
    if (text.trim() !== current) setParams(historyFilter(store.data, text), { push: true });
  };
  return html`
    <form class="history-field" onSubmit=${choose}>
      <label class="filter"><${Icon} name="search" /><span class="sr">Show only a path or a session</span>
        <input type="search" placeholder="src/parser/**, or session:bo" value=${text} autocomplete="off" spellcheck="false" onInput=${(event) => setText(event.target.value)} onChange=${choose} /></label>
      ${current && html`<button type="button" class="link" onClick=${() => setParams({ path: "", session: "" }, { push: true })}>Show everything</button>`}
    </form>`;
}

const lead = (path, session) => (path || session ? null : "Each bar is a reservation. Point at a bar, or move the focus to it, for details.");

const emptyLog = () => ({ events: [], cursor: null, isDone: false, isLoading: true, isFailed: false, isCut: false, keys: new Set() });

/** The events of the history, read back to `from`, and those that happen meanwhile. */
function useLog(path, session, from) {
  const [log, setLog] = useState(emptyLog);
  const filter = `${path}\n${session}\n${store.repo}`;
  const now = useRef(null);
  now.current = log;
  useEffect(() => {
    setLog(emptyLog());
    const seen = (_, __, actions) => {
      // Everything is loaded anew: events may be missing in between.
      if (actions.some((one) => one.type === "reset")) setLog(emptyLog());
      const fresh = actions.filter((one) => one.event && one.filePath && (!path || one.filePath === path) && (!session || one.sessionId === session));
      if (fresh.length) setLog((old) => ({ ...old, events: [...fresh.reverse(), ...old.events], keys: new Set([...old.keys, ...fresh.map((one) => one.filePath)]) }));
    };
    return watch(seen);
  }, [filter]);
  const oldest = log.events.length ? parseTime(log.events.at(-1).at) : Infinity;
  const needsMore = !log.isDone && !log.isCut && oldest > from;
  useEffect(() => {
    if (!needsMore) return undefined;
    let isGone = false;
    (async () => {
      let { cursor } = now.current;
      for (let page = 0; page < PAGES_MAX && !isGone; page += 1) {
        const answer = await get("api/history", { limit: PAGE, path, session, cursor }).catch(() => null);
        if (isGone) return;
        if (!answer) return setLog((old) => ({ ...old, isLoading: false, isFailed: true }));
        cursor = answer.nextCursor ?? null;
        const last = answer.events.at(-1);
        const isEnough = !cursor || (last && parseTime(last.at) <= from);
        setLog((old) => ({ ...merged(old, answer.events), isFailed: false, cursor, isDone: !cursor, isLoading: !isEnough, isCut: !isEnough && page === PAGES_MAX - 1 }));
        if (isEnough) return undefined;
      }
      return undefined;
    })();
    return () => {
      isGone = true;
    };
    // A server that did not answer is asked again once it is back.
  }, [filter, needsMore, store.connection === "live"]);
  return log;
}

function merged(old, events) {
  const known = new Set(old.events.map((one) => one.seq));
  const fresh = events.filter((one) => !known.has(one.seq));
  return { ...old, events: [...old.events, ...fresh], keys: new Set([...old.keys, ...fresh.map((one) => one.filePath).filter(Boolean)]) };
}

function Chart({ rows, by, from, end, isLatest, setTip }) {
  const marks = ticks(from, end, 7);
  return html`
    <div class="chart" role="table" aria-label="Who held what when">
      <div class="chart-head" role="row"><span role="columnheader"><span class="sr">${by === "path" ? "Path" : "Session"}</span></span><div class="axis" role="columnheader" aria-label=${`${clock(from)} to ${clock(end)}`}>
        ${marks.map((at) => html`<${At} key=${at} kind="tick" at=${(at - from) / (end - from)}>${clock(at)}</${At}>`)}
        <${At} kind="tick end" at=${1}>${clock(end)}</${At}></div></div>
      ${rows.map((row) => html`<${ChartRow} key=${row.name} row=${row} by=${by} from=${from} end=${end} marks=${marks} isLatest=${isLatest} setTip=${setTip} />`)}
    </div>`;
}

/** Something at a share of the width. */
function At({ kind, at, children }) {
  const element = useRef(null);
  useLayoutEffect(() => element.current.style.setProperty("left", `${(at * 100).toFixed(3)}%`), [at]);
  return html`<span class=${kind} ref=${element}>${children}</span>`;
}

/** The address of this view with another choice. */
const same = (change) => link("history", { ...Object.fromEntries(store.route.params), ...change });

function ChartRow({ row, by, from, end, marks, isLatest, setTip }) {
  const share = (at) => Math.min(1, Math.max(0, (at - from) / (end - from)));
  const refused = store.refusals.list.filter((one) => (by === "path" ? one.blockers?.some((blocker) => blocker.key === row.name) || one.keys.includes(row.name) : one.sessionId === row.name)).map((one) => ({ one, at: parseTime(one.at) })).filter(({ at }) => at >= from && at <= end);
  const lanes = Math.min(row.lanes, LANES_MAX);
  return html`
    <div class="chart-row" role="row">
      <div class="chart-label" role="rowheader">${by === "path" ? html`<a href=${same({ path: shown(row.name), session: "" })}><${Key} value=${row.name} /></a>` : html`<a class="holder" href=${same({ session: row.name, path: "", by: "" })}><${Chip} id=${row.name} /><${Name} id=${row.name} /></a>`}</div>
      <div class="lane-box" role="cell">
        ${marks.map((at) => html`<${At} key=${at} kind="grid" at=${share(at)} />`)}
        ${isLatest && html`<${At} kind="now-line" at=${1} />`}
        ${row.bars.filter((bar) => bar.lane < LANES_MAX).map((bar) => html`<${HistoryBar} key=${bar.id} bar=${bar} by=${by} from=${share(bar.from ?? from)} to=${share(bar.to ?? end)} isCut=${bar.from === null || bar.from < from} lanes=${lanes} setTip=${setTip} />`)}
        ${refused.slice(0, 50).map(({ one, at }) => html`<${Refused} key=${`${one.at}${one.sessionId}`} one=${one} share=${share(at)} at=${at} setTip=${setTip} />`)}
      </div>
    </div>`;
}

/** A request that was refused: a triangle. */
function Refused({ one, share, at, setTip }) {
  const element = useRef(null);
  useLayoutEffect(() => element.current.style.setProperty("left", `${(share * 100).toFixed(3)}%`), [share]);
  const lines = refusedLines(one, at);
  const show = () => setTip({ lines, key: one.keys[0] ?? "", box: element.current.getBoundingClientRect() });
  const hide = () => setTip(null);
  return html`<button type="button" class="refused" ref=${element} aria-label=${lines.join(". ")} onPointerEnter=${show} onPointerLeave=${hide} onFocus=${show} onBlur=${hide}></button>`;
}

function refusedLines(one, at) {
  const { data, now } = store;
  const name = one.sessionId === store.me ? "You were" : `${one.sessionName ?? nameOf(data, one.sessionId)} was`;
  const times = one.count > 1 ? `${one.count.toLocaleString("en")} times, from ${clock(parseTime(one.firstAt), now, true)} to ${clock(at, now, true)}` : `at ${clock(at, now, true)}`;
  const lines = [`${name} refused ${times}`];
  const blockers = [...new Set((one.blockers ?? []).map((blocker) => blocker.sessionName ?? nameOf(data, blocker.sessionId)))];
  if (one.code === "POSSIBLE_DEADLOCK") lines.push("The wait would have caused a deadlock");
  else if (one.code === "FEATURE_PAUSED") lines.push("Its feature was paused");
  else if (blockers.length) lines.push(`${listNames(blockers)} had it`);
  if (one.code === "LOCK_ACQUISITION_FAILED") lines.push("It waited and gave up");
  return lines;
}

function HistoryBar({ bar, by, from, to, isCut, lanes, setTip }) {
  const element = useRef(null);
  useLayoutEffect(() => {
    const { style } = element.current;
    // A short bar is as wide as it must be to be seen, and does not cross the end of the axis.
    style.setProperty("left", `min(${(from * 100).toFixed(3)}%, 100% - 4px)`);
    style.setProperty("width", `${((to - from) * 100).toFixed(3)}%`);
    style.setProperty("--lanes", lanes);
    style.setProperty("--lane", bar.lane);
  });
  const name = bar.sessionId === store.me ? "You" : (bar.sessionName ?? nameOf(store.data, bar.sessionId));
  const show = () => setTip({ lines: tipLines(bar, name), key: bar.key, box: element.current.getBoundingClientRect() });
  const hide = () => setTip(null);
  const kind = `held-bar ${bar.sessionId === store.me ? "own" : `c${hue(bar.sessionId)}`} ${bar.end ?? "held"} ${isCut ? "cut-start" : ""} ${lanes > 1 ? "thin" : ""} ${to - from < SHORT_SHARE ? "short" : ""}`;
  const label = tipLines(bar, name).join(". ");
  return html`<button type="button" class=${kind} ref=${element} aria-label=${label} onPointerEnter=${show} onPointerLeave=${hide} onFocus=${show} onBlur=${hide}><bdi>${by === "path" ? name : shown(bar.key)}</bdi></button>`;
}

function tipLines(bar, name) {
  const { now } = store;
  const lines = [`${name}${bar.mode ? `, ${bar.mode}` : ""}${bar.fence ? `, fence ${bar.fence.toLocaleString("en")}` : ""}`];
  const end = bar.to ?? now;
  lines.push(bar.from ? `${clock(bar.from, now, true)} to ${bar.to ? clock(bar.to, now, true) : "now"}, ${exactly(end - bar.from)}` : `until ${clock(end, now, true)}`);
  if (bar.reason) lines.push(`“${bar.reason}”`);
  if (bar.end === "overridden") lines.push(`Overridden by ${bar.by ?? "an admin"}${bar.why ? `: ${bar.why}` : ""}`);
  else lines.push(bar.end === "expired" ? "Expired" : bar.end ? "Released" : "Still held");
  return lines;
}

function Tip({ tip }) {
  const element = useRef(null);
  useLayoutEffect(() => {
    const { style, offsetWidth, offsetHeight } = element.current;
    const x = Math.max(8, Math.min(tip.box.left, innerWidth - offsetWidth - 8));
    const below = tip.box.bottom + 8;
    style.setProperty("left", `${x}px`);
    style.setProperty("top", `${below + offsetHeight > innerHeight ? tip.box.top - offsetHeight - 8 : below}px`);
  });
  const [first, ...rest] = tip.lines;
  return html`<div class="tip" ref=${element} aria-hidden="true"><p class="strong">${first}</p><p><code>${shown(tip.key)}</code></p>${rest.map((line) => html`<p>${line}</p>`)}</div>`;
}

const Legend = () => html`
  <p class="legend" aria-hidden="true">
    ${[["released", "released"], ["expired", "expired"], ["overridden", "overridden"], ["held", "still held"]].map(([kind, text]) => html`<span key=${kind}><i class=${`held-bar sample ${kind}`}></i>${text}</span>`)}
    <span><i class="refused sample"></i>request refused</span>
  </p>`;
