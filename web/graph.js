// Where each session of the wait-for graph is drawn. Pure.

/** Sessions in the picture, at most: the longest waits come first. */
export const NODES_MAX = 40;

/**
 * Places sessions in columns and rows. A session that waits for none is in the last column, one that no session waits for
 * in the first, and the others between them. A chain stays on one row where it can.
 *
 * Returns {nodes: [{id, column, row}], edges: [{from, to, wait, key, passes, hasLabel}], columns, rows, left}; `left` sessions had no room.
 */
export function layout(waits) {
  const { blockers, edges } = collect(waits);
  const levels = new Map();
  const level = (id, path) => {
    if (levels.has(id)) return levels.get(id);
    // The server refuses cycles; a list that is a moment old could still show one.
    if (path.has(id)) return 0;
    const below = [...(blockers.get(id) ?? [])].map((next) => level(next, new Set(path).add(id)));
    const own = below.length ? 1 + Math.max(...below) : 0;
    levels.set(id, own);
    return own;
  };
  const ids = [...new Set(edges.flatMap((edge) => [edge.from, edge.to]))];
  ids.forEach((id) => level(id, new Set()));
  const shownIds = new Set(ids.slice(0, NODES_MAX));
  const depth = Math.max(0, ...[...shownIds].map((id) => levels.get(id)));
  const rows = placeRows(ids.filter((id) => shownIds.has(id)), levels, edges);
  const waitedFor = new Set(edges.map((edge) => edge.to));
  const column = (id) => (waitedFor.has(id) ? depth - levels.get(id) : 0);
  const nodes = [...shownIds].map((id) => ({ id, column: column(id), row: rows.of.get(id) }));
  const drawn = edges.filter((edge) => shownIds.has(edge.from) && shownIds.has(edge.to));
  return { nodes, edges: drawn.map(routed(nodes)), columns: depth + 1, rows: rows.count, left: ids.length - shownIds.size };
}

/** How an edge is drawn: past the sessions between its ends, and with a label only if it is the first of its session. */
function routed(nodes) {
  const at = new Map(nodes.map((node) => [node.id, node]));
  const labelled = new Set();
  return (edge) => {
    const [from, to] = [at.get(edge.from), at.get(edge.to)];
    const passes = nodes.some((node) => node.row === from.row && node.column > from.column && node.column < to.column);
    const hasLabel = !labelled.has(edge.from);
    labelled.add(edge.from);
    return { ...edge, passes, hasLabel };
  };
}

function collect(waits) {
  const blockers = new Map();
  const edges = [];
  const seen = new Set();
  for (const wait of [...waits].sort((a, b) => a.since - b.since)) {
    for (const { sessionId, key } of wait.blockedBy) {
      const name = `${wait.sessionId} ${sessionId}`;
      if (sessionId === wait.sessionId || seen.has(name)) continue;
      seen.add(name);
      if (!blockers.has(wait.sessionId)) blockers.set(wait.sessionId, new Set());
      blockers.get(wait.sessionId).add(sessionId);
      edges.push({ from: wait.sessionId, to: sessionId, wait, key: wait.keys.includes(key) ? key : wait.keys[0] });
    }
  }
  return { blockers, edges };
}

/** Rows by root: the sessions that wait for it are below each other, the first on its own row. */
function placeRows(ids, levels, edges) {
  const of = new Map();
  let count = 0;
  const behind = (id) => edges.filter((edge) => edge.to === id && ids.includes(edge.from)).map((edge) => edge.from);
  const put = (id, row) => {
    of.set(id, row);
    count = Math.max(count, row + 1);
    let isFirst = true;
    for (const waiter of behind(id)) {
      if (of.has(waiter)) continue;
      put(waiter, isFirst ? row : count);
      isFirst = false;
    }
  };
  for (const id of ids) if (levels.get(id) === 0 && !of.has(id)) put(id, count);
  for (const id of ids) if (!of.has(id)) put(id, count);
  return { of, count };
}
