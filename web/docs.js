// Shows /openapi.json to people. Everything from the document becomes text, never markup.
"use strict";

let doc;

// An element: a name with an optional class, attributes, and what is in it.
function make(name, attributes, ...inside) {
  const [tag, kind] = name.split(".");
  const element = document.createElement(tag);
  if (kind) element.className = kind;
  for (const [key, value] of Object.entries(attributes || {})) element.setAttribute(key, value);
  element.append(...inside.flat().filter((part) => part !== null && part !== undefined && part !== ""));
  return element;
}

// `code` inside a line.
function line(text) {
  return text.split("`").map((part, i) => (i % 2 ? make("code", null, part) : part));
}

// The little Markdown that descriptions use: paragraphs, lists, tables, code.
function prose(text) {
  return (text || "").split(/\n\n+/).filter(Boolean).map((block) => {
    const lines = block.split("\n").filter((one) => one.trim());
    if (lines.every((one) => one.startsWith("- "))) return make("ul", null, lines.map((one) => make("li", null, line(one.slice(2)))));
    if (lines.length > 2 && lines.every((one) => one.startsWith("|"))) {
      const cells = (one) => one.slice(1, one.lastIndexOf("|")).split("|").map((cell) => cell.trim());
      return table(cells(lines[0]), lines.slice(2).map((one) => cells(one).map(line)));
    }
    return make("p", null, line(lines.join(" ")));
  });
}

function table(heads, rows) {
  const head = make("tr", null, heads.map((one) => make("th", { scope: "col" }, one)));
  const body = rows.map((row) => make("tr", null, row.map((cell) => make("td", null, cell))));
  return make("div.scroll", null, make("table", null, make("thead", null, head), make("tbody", null, body)));
}

function resolve(value) {
  if (!value || !value.$ref) return value;
  const found = value.$ref.slice(2).split("/").reduce((at, name) => at[name], doc);
  return { ...found, ...value, $ref: undefined };
}

// A schema in a few words; named ones link to their place below.
function shape(schema) {
  if (!schema) return ["anything"];
  if (schema.$ref) {
    const name = schema.$ref.split("/").pop();
    return [make("a", { href: "#schema-" + name }, name)];
  }
  const some = schema.oneOf || schema.allOf;
  if (some) {
    const parts = some.filter((one) => one.$ref || one.type !== "object" || schema.oneOf);
    return parts.flatMap((one, i) => [i ? " or " : "", ...shape(one)]);
  }
  const types = [].concat(schema.type || "anything");
  const shown = types.map((type) => {
    if (type === "array") return ["list of ", ...shape(schema.items)];
    return [schema.format && type !== "null" && !schema.format.startsWith("int") ? `${type} (${schema.format})` : type];
  });
  return shown.flatMap((one, i) => (i ? [" or ", ...one] : one));
}

function limits(schema) {
  const names = { minimum: "at least", maximum: "at most", minLength: "characters at least", maxLength: "characters at most", minItems: "entries at least", maxItems: "entries at most", pattern: "pattern" };
  const found = Object.entries(names).filter(([key]) => schema[key] !== undefined).map(([key, words]) => [words + " ", make("code", null, String(schema[key]))]);
  if (schema.enum) found.push(["one of ", ...schema.enum.flatMap((one, i) => [i ? ", " : "", make("code", null, String(one))])]);
  if (schema.default !== undefined) found.push(["default ", make("code", null, String(schema.default))]);
  return found.length ? make("div.quiet", null, found.flatMap((one, i) => (i ? ["; ", ...one] : one))) : null;
}

function fields(schema) {
  const required = schema.required || [];
  const rows = Object.entries(schema.properties || {}).map(([name, field]) => {
    const inner = field.oneOf ? field.oneOf.find((one) => one.description) || field : field;
    const about = field.description || inner.description;
    return [make("code", null, name), shape(field), required.includes(name) ? "yes" : "", [...prose(about), limits(field)]];
  });
  return rows.length ? table(["field", "type", "always", "meaning"], rows) : null;
}

function json(value) {
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  return make("pre", { tabindex: "0" }, make("code", null, text));
}

function examples(content) {
  return Object.entries(content.examples || {}).map(([name, one]) => make("details", null, make("summary", null, "example: ", make("code", null, name)), json(resolve(one).value)));
}

function content(all) {
  return Object.entries(all || {}).flatMap(([type, one]) => [make("div", null, make("span.quiet", null, type + ": "), shape(one.schema || one.itemSchema)), ...examples(one)]);
}

function call(path, method, operation) {
  const id = "call-" + operation.operationId;
  const open = operation.security && operation.security.some((one) => !Object.keys(one).length);
  const section = make("section", { id });
  section.append(make("h3", null, make("a", { href: "#" + id }, make("span.method " + method, null, method.toUpperCase()), make("code", null, path))));
  section.append(make("p", null, make("strong", null, operation.summary), open ? make("span.quiet", null, " No token needed.") : ""));
  section.append(...prose(operation.description));
  const parameters = (operation.parameters || []).map(resolve);
  if (parameters.length) {
    section.append(make("h4", null, "Parameters"));
    section.append(table(["name", "in", "type", "required", "meaning"], parameters.map((one) => [
      make("code", null, one.name), one.in, shape(one.schema), one.required ? "yes" : "",
      [...prose(one.description), limits(one.schema), one.example === undefined ? null : make("div.quiet", null, "example ", make("code", null, [].concat(one.example).join(", ")))],
    ])));
  }
  const body = resolve(operation.requestBody);
  if (body) section.append(make("h4", null, body.required ? "Body" : "Body (may be left out)"), ...content(body.content));
  section.append(make("h4", null, "Answers"));
  for (const [status, one] of Object.entries(operation.responses)) {
    const answer = resolve(one);
    const lines = answer.description.split("\n\n");
    const headers = Object.entries(answer.headers || {}).map(([name, header]) => make("div.quiet", null, "header ", make("code", null, name), ": ", line(resolve(header).description || "")));
    const details = make("details", status < 400 ? { open: "" } : null, make("summary", null, make("strong", null, status), " ", lines.flatMap((text, i) => (i ? [" · ", ...line(text)] : line(text)))));
    details.append(...content(answer.content), ...headers);
    section.append(details);
  }
  return section;
}

function schemaSection(name, schema) {
  const section = make("section", { id: "schema-" + name }, make("h3", null, make("a", { href: "#schema-" + name }, name)));
  section.append(...prose(schema.description));
  const parts = (schema.oneOf || []).filter((one) => one.properties && one.properties && !schema.properties);
  if (parts.length) parts.forEach((one) => section.append(make("h4", null, line(one.description || "One of")), fields(one) || ""));
  else if (schema.oneOf && !schema.properties) section.append(make("p", null, shape(schema)));
  const exclusive = schema.properties && schema.oneOf ? schema.oneOf.map((one) => one.required[0]) : [];
  if (exclusive.length) section.append(make("p", null, "Exactly one of ", exclusive.flatMap((one, i) => [i ? " and " : "", make("code", null, one)]), "."));
  section.append(fields(schema) || make("p", null, shape(schema.oneOf ? {} : schema).filter((one) => one !== "anything"), limits(schema)));
  if (schema.examples) section.append(make("p.quiet", null, "for example ", schema.examples.flatMap((one, i) => [i ? ", " : "", make("code", null, String(one))])));
  return section;
}

function show() {
  const main = document.getElementById("main");
  const index = document.getElementById("index");
  main.replaceChildren(make("h1", null, doc.info.title, " ", make("small", null, doc.info.version)), ...prose(doc.info.description));
  main.append(make("h2", { id: "token" }, "Token"), ...prose(doc.components.securitySchemes.token.description));
  const entries = [];
  for (const tag of doc.tags) {
    main.append(make("h2", null, tag.name), ...prose(tag.description));
    index.append(make("h2", null, tag.name));
    for (const [path, item] of Object.entries(doc.paths)) {
      for (const [method, operation] of Object.entries(item)) {
        if (!operation.tags || !operation.tags.includes(tag.name)) continue;
        const section = call(path, method, operation);
        const link = make("a", { href: "#" + section.id, title: method.toUpperCase() + " " + path }, make("span.method " + method, null, method.toUpperCase()), operation.summary);
        main.append(section);
        index.append(link);
        entries.push([section, link]);
      }
    }
  }
  main.append(make("h2", null, "Shapes"));
  index.append(make("h2", null, "Shapes"));
  for (const [name, schema] of Object.entries(doc.components.schemas)) {
    const section = schemaSection(name, schema);
    const link = make("a", { href: "#" + section.id }, name);
    main.append(section);
    index.append(link);
    entries.push([section, link]);
  }
  document.getElementById("find").addEventListener("input", (event) => {
    const words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const [section, link] of entries) {
      const text = section.textContent.toLowerCase();
      section.hidden = link.hidden = !words.every((word) => text.includes(word));
    }
  });
  if (location.hash) document.getElementById(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView();
}

fetch("openapi.json").then((answer) => answer.json()).then((read) => {
  doc = read;
  show();
}).catch((error) => {
  document.getElementById("main").replaceChildren(make("p", null, "The document at /openapi.json could not be read: ", String(error)));
});
