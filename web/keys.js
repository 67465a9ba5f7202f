// Keys as the page shows them: their kind, their directory and their last part, and their order.

const NAMESPACE = /^([a-z][a-z0-9+.-]*):/;

/** "path", "name" or "uri". */
export function kindOf(key) {
  const found = NAMESPACE.exec(key);
  if (!found || found[1] === "file") return "path";
  return key.startsWith("//", found[0].length) ? "uri" : "name";
}

/** The key without the "file:" that makes a path literal. */
export function shown(key) {
  return key.startsWith("file:") ? key.slice(5) : key;
}

/**
 * The directories of a path and what is left of it. A pattern stays whole from its first part with a wildcard on, and
 * "parser/**" stays together: it is the directory that is held.
 */
export function splitPath(path) {
  const parts = path.split("/");
  let leaf = parts.length - 1;
  const isPattern = (part) => /[*?[{]/.test(part);
  if (parts[leaf] === "**") leaf -= 1;
  const first = parts.findIndex(isPattern);
  if (first >= 0 && first < leaf) leaf = first;
  leaf = Math.max(0, leaf);
  return { dirs: parts.slice(0, leaf), leaf: parts.slice(leaf).join("/") };
}

/** What is shown quietly, and what is shown in ink: "src/cli/" and "args.rs", "db:" and "migration-slot". */
export function splitShown(key) {
  const text = shown(key);
  const kind = kindOf(key);
  if (kind === "path") {
    const { dirs, leaf } = splitPath(text);
    return [dirs.length ? `${dirs.join("/")}/` : "", leaf];
  }
  const end = kind === "uri" ? text.indexOf("://") + 3 : text.indexOf(":") + 1;
  return [text.slice(0, end), text.slice(end)];
}

/** The same for a part of a path, like "cli/args.rs" below its directory. A directory alone stays whole. */
export function splitWhole(text) {
  const { dirs, leaf } = splitPath(text);
  return leaf && dirs.length ? [`${dirs.join("/")}/`, leaf] : ["", text];
}

/** A name with at most so many letters: its beginning. */
export function cutName(name, most) {
  const letters = [...name];
  return letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : name;
}

/** A key with at most so many letters. Its directory goes first, then the end of its last part. */
export function cutKey(text, most) {
  if ([...text].length <= most) return text;
  const [quiet, last] = splitShown(text);
  const room = most - 1 - [...last].length;
  if (room < 0) return cutName(last, most);
  return `${[...quiet].slice(0, room).join("")}…${last}`;
}

/** Text by which keys are sorted: what is in a directory stays together. Paths come before names and URIs. */
export function sortText(key) {
  const kind = kindOf(key);
  return kind === "path" ? `0${shown(key).replaceAll("/", "\u0001")}` : `1${key}`;
}

/** The feature that this key pauses, or null. */
export function pausedFeature(key) {
  const found = /^feature:(.*):pause$/.exec(key);
  return found ? found[1] : null;
}

/**
 * Whether two keys are the same, or one is the directory of the other. The server knows more about patterns; this is for what
 * the page has no answer of the server for.
 */
export function isNear(a, b) {
  const [one, other] = [shown(a), shown(b)];
  const under = (dir, path) => dir.endsWith("/**") && path.startsWith(dir.slice(0, -2));
  const directory = (path) => (path.endsWith("/") ? `${path}**` : path);
  return one === other || under(directory(one), other) || under(directory(other), one);
}

/** The key as a person types it in a shell, in any directory of the repository. */
export function typed(key) {
  const text = kindOf(key) === "path" ? `:/${shown(key).replace(/\/\*\*$/, "/")}` : key;
  return /^[\w./:@%+,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
