// A timeline of who held what when.

import { html, useEffect, useLayoutEffect, useRef, useState } from "./htm-preact.js";
import { get } from "./api.js";
import { historyFilter, hue, listNames, nameOf } from "./derive.js";
import { readRefusals } from "./feed.js";
import { isNear, shown, typed } from "./keys.js";
import { Chip, Choice, Command, Heading, Icon, Key, Name, plural } from "./parts.js";
import { link, param, setParams } from "./route.js";
import { serverNow, store, watch } from "./store.js";
import { bars, mergeEvents, rowsOf, ticks } from "./timeline.js";
import { clock, exactly, parseTime } from "./time.js";

const SPANS = { "30m": [30, "30 minutes"], "2h": [120, "2 hours"], "1d": [1440, "day"] };
const PAGE = 1000;
/** Pages that are read for one picture, at most. */
const PAGES_MAX = 20;
/** Events that are kept for one picture, at most. */
const EVENTS_MAX = 50_000;
/** How long after a change to ask the server for the events of a path, in milliseconds: changes often come together. */
const NEWS_MS = 500;
/** How often refused attempts are asked for while the view is open, in milliseconds: no event tells of them. */
const REFUSALS_MS = 5000;
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
  const log = useLog(path, param("encoding"), session, from);
  const [tip, setTip] = useState(null);
  useEffect(() => {
    readRefusals();
    const timer = setInterval(readRefusals, REFUSALS_MS);
    return () => clearInterval(timer);
  }, []);
  // The server says which keys overlap the path. A reservation from before the events has none; its key may be near.
  const isShown = (one) => !path || isNear(one.key, path) || log.keys.has(one.key);
  const held = store.data.order.filter((one) => (!session || one.sessionId === session) && isShown(one));
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
      ${log.isCut && oldestOf(log) > from && html`<p class="nothing soft">There are more events than this picture can show. Choose one path, one session, or a shorter time.</p>`}
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
    if (text.trim() !== current) setParams({ ...historyFilter(store.data, text), encoding: "" }, { push: true });
  };
  return html`
    <form class="history-field" onSubmit=${choose}>
      <label class="filter"><${Icon} name="search" /><span class="sr">Show only a path or a session</span>
        <input type="search" placeholder="src/parser/**, or session:bo" value=${text} autocomplete="off" spellcheck="false" onInput=${(event) => setText(event.target.value)} onChange=${choose} /></label>
      ${current && html`<button type="button" class="link" onClick=${() => setParams({ path: "", encoding: "", session: "" }, { push: true })}>Show everything</button>`}
    </form>`;
}

const lead = (path, session) => (path || session ? null : "Each bar is a reservation. Point at a bar, or move the focus to it, for details.");

/** `newest` is the latest event that the server has answered with: all before it are known, back to the last of `events`. */
const emptyLog = (filter) => ({ filter, events: [], newest: 0, cursor: null, isDone: false, isLoading: true, isFailed: false, isCut: false, keys: new Set() });

/** When the oldest event happened. */
const oldestOf = (log) => (log.events.length ? parseTime(log.events.at(-1).at) : Infinity);

/** The events of the history, read back to `from`, and those that happen meanwhile. */
function useLog(path, encoding, session, from) {
  const [round, setRound] = useState(0);
  const filter = `${path}\n${encoding}\n${session}\n${store.repo}\n${round}`;
  const [state, setState] = useState(() => emptyLog(filter));
  // What was read for another filter is no part of this one.
  const own = (one) => (one.filter === filter ? one : emptyLog(filter));
  const log = own(state);
  const setLog = (change) => setState((old) => change(own(old)));
  const now = useRef(null);
  now.current = log;
  useEffect(() => {
    const query = { limit: PAGE, path, encoding, session };
    let timer = 0;
    let isGone = false;
    const readNews = async () => {
      timer = 0;
      const news = await eventsSince(now.current.newest, query);
      if (!isGone) setLog((old) => merged({ ...old, newest: Math.max(old.newest, news[0]?.seq ?? 0) }, news));
    };
    const seen = (_, __, actions) => {
      // Everything is reloaded: events may be missing in between.
      if (actions.some((one) => one.type === "reset")) return setRound((old) => old + 1);
      const fresh = actions.filter((one) => one.event && one.filePath && (!session || one.sessionId === session));
      if (!fresh.length) return undefined;
      if (!path) return setLog((old) => merged(old, fresh));
      // Only the server knows which keys overlap the path. A bar that is shown ends at once.
      const known = new Set(now.current.events.map((one) => one.reservationId));
      const ends = fresh.filter((one) => one.event === "released" && known.has(one.reservationId));
      if (ends.length) setLog((old) => merged(old, ends));
      timer ||= setTimeout(readNews, NEWS_MS);
      return undefined;
    };
    const stop = watch(seen);
    return () => {
      isGone = true;
      clearTimeout(timer);
      stop();
    };
  }, [filter]);
  const needsMore = !log.isDone && !log.isCut && oldestOf(log) > from;
  useEffect(() => {
    if (!needsMore) return undefined;
    let isGone = false;
    (async () => {
      let { cursor, events: { length: count } } = now.current;
      for (let page = 0; page < PAGES_MAX && !isGone; page += 1) {
        const answer = await get("api/history", { limit: PAGE, path, encoding, session, cursor }).catch(() => null);
        if (isGone) return;
        if (!answer) return setLog((old) => ({ ...old, isLoading: false, isFailed: true }));
        cursor = answer.nextCursor ?? null;
        const last = answer.events.at(-1);
        const isEnough = !cursor || (last && parseTime(last.at) <= from);
        count += answer.events.length;
        const isCut = !isEnough && (page === PAGES_MAX - 1 || count >= EVENTS_MAX);
        const newest = answer.events[0]?.seq ?? 0;
        setLog((old) => ({ ...merged(old, answer.events), newest: Math.max(old.newest, newest), isFailed: false, cursor, isDone: !cursor, isLoading: !isEnough && !isCut, isCut }));
        if (isEnough || isCut) return undefined;
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

/** The events of a path after this one, which the server had told of before. */
async function eventsSince(newest, query) {
  const found = [];
  let cursor = null;
  for (let page = 0; page < PAGES_MAX; page += 1) {
    const answer = await get("api/history", { ...query, cursor }).catch(() => null);
    if (!answer) break;
    found.push(...answer.events);
    cursor = answer.nextCursor;
    if (!newest || !cursor || found.at(-1)?.seq <= newest) break;
  }
  return found;
}

function merged(old, events) {
  const all = mergeEvents(old.events, events, EVENTS_MAX);
  if (all === old.events) return old;
  const keys = new Set([...old.keys, ...events.map((one) => one.filePath).filter(Boolean)]);
  const log = { ...old, events: all, keys };
  // The oldest events were left out. To go back to them, the history is read again.
  return all.length < EVENTS_MAX ? log : { ...log, cursor: null, isDone: false };
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
      <div class="chart-label" role="rowheader">${by === "path" ? html`<a href=${same({ path: row.name, encoding: row.bars[0].encoding, session: "" })}><${Key} value=${row.name} /></a>` : html`<a class="holder" href=${same({ session: row.name, path: "", encoding: "", by: "" })}><${Chip} id=${row.name} /><${Name} id=${row.name} /></a>`}</div>
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
