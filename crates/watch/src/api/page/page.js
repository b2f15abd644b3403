// Shows /v1/openapi.json. Everything is written as text, never as HTML.
const METHODS = ["get", "post", "patch", "put", "delete"];

/** An element with attributes and children; texts become text nodes. */
function el(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

const nameOf = (reference) => reference.split("/").pop();
const link = (name) => el("a", { href: `#schema-${name}` }, name);

/** What a schema is, in a few words. */
function typeOf(schema) {
  if (schema === undefined) return ["anything"];
  if (schema.$ref) return [link(nameOf(schema.$ref))];
  const several = schema.oneOf ?? schema.anyOf ?? schema.allOf;
  if (several) return several.flatMap((one, i) => (i === 0 ? typeOf(one) : [schema.allOf ? " and " : " or ", ...typeOf(one)]));
  if (schema.type === "array") return ["list of ", ...typeOf(schema.items)];
  if (schema.enum) return schema.enum.flatMap((word, i) => [i === 0 ? "" : " | ", el("code", {}, String(word))]);
  const type = [schema.type ?? "anything"].flat().join(" or ");
  return [type];
}

function limitsOf(schema = {}) {
  const parts = [];
  if (schema.pattern) parts.push(`matches ${schema.pattern}`);
  const range = [schema.minimum ?? schema.minLength ?? schema.minItems, schema.maximum ?? schema.maxLength ?? schema.maxItems];
  if (range.some((bound) => bound !== undefined)) parts.push(`${range[0] ?? ""}..${range[1] ?? ""}`);
  if (schema.multipleOf) parts.push(`a multiple of ${schema.multipleOf}`);
  if (schema.default !== undefined) parts.push(`default ${JSON.stringify(schema.default)}`);
  return parts.length === 0 ? null : el("div", { class: "soft" }, el("code", {}, parts.join("; ")));
}

const row = (...cells) => el("tr", {}, cells.map((cell) => el("td", {}, cell)));
const table = (heads, rows) => el("table", {}, el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col" }, head)))), el("tbody", {}, rows));
const json = (value) => el("pre", {}, el("code", {}, JSON.stringify(value, null, 2)));

function fieldsOf(schema) {
  const objects = schema.allOf ? schema.allOf.filter((one) => one.properties) : [schema];
  return objects.flatMap((object) =>
    Object.entries(object.properties ?? {}).map(([name, field]) =>
      row(el("code", {}, name), typeOf(field), [(object.required ?? []).includes(name) ? "" : "optional. ", field.description ?? "", limitsOf(field)])));
}

function schemaBlock([name, schema]) {
  const rows = fieldsOf(schema);
  const body = rows.length > 0 ? table(["field", "type", "meaning"], rows) : el("p", {}, typeOf(schema), limitsOf(schema));
  const example = schema.example === undefined ? null : json(schema.example);
  return el("section", { class: "call", id: `schema-${name}` }, el("header", {}, el("strong", {}, name)), el("div", {}, el("p", {}, schema.description ?? ""), body, example));
}

function bodyOf(content) {
  return Object.entries(content ?? {}).flatMap(([kind, { schema }]) => [el("code", {}, kind), " ", ...typeOf(schema)]);
}

const idOf = (method, path) => `${method}-${path.replace(/[^a-z0-9]+/gi, "-")}`;

function callBlock({ method, path, operation }) {
  const parameters = (operation.parameters ?? []).map((one) =>
    row(el("code", {}, one.name), one.in, [one.required ? "" : "optional. ", one.description ?? "", limitsOf(one.schema)]));
  const answers = Object.entries(operation.responses).map(([status, answer]) => row(el("code", {}, status), answer.description, bodyOf(answer.content)));
  const parts = [el("p", {}, operation.summary ?? "", operation.description ? ` ${operation.description}` : "")];
  if (operation.security?.length) parts.push(el("p", { class: "soft" }, `Needs a token with the role ${method === "get" ? "read" : "operate"}.`));
  if (parameters.length > 0) parts.push(el("h4", {}, "Parameters"), table(["name", "in", "meaning"], parameters));
  if (operation.requestBody) parts.push(el("h4", {}, "Body"), el("p", {}, bodyOf(operation.requestBody.content)));
  parts.push(el("h4", {}, "Answers"), table(["status", "when", "body"], answers));
  const head = el("header", {}, el("span", { class: `method ${method}` }, method.toUpperCase()), el("span", { class: "path" }, path));
  return el("section", { class: "call", id: idOf(method, path) }, head, el("div", {}, parts));
}

function show(api) {
  const calls = Object.entries(api.paths).flatMap(([path, item]) => METHODS.filter((method) => item[method]).map((method) => ({ method, path, operation: item[method] })));
  const page = document.getElementById("page");
  const menu = document.getElementById("menu");
  const about = api.info.description.split("\n\n").map((text) => el("p", {}, text));
  page.replaceChildren(el("h1", {}, `${api.info.title}: the API`), el("p", { class: "soft" }, `Version ${api.info.version}. `, el("a", { href: "/v1/openapi.json" }, "OpenAPI 3.1 document")), ...about);
  for (const tag of api.tags ?? []) {
    const own = calls.filter(({ operation }) => operation.tags?.includes(tag.name));
    page.append(el("h2", {}, tag.description), ...own.map(callBlock));
    menu.append(el("h2", {}, tag.name), ...own.map(({ method, path }) => el("a", { href: `#${idOf(method, path)}` }, `${method.toUpperCase()} ${path}`)));
  }
  const problems = api["x-problems"].map(({ word, status, title }) => el("tr", { id: word }, [String(status), word, title].map((cell) => el("td", {}, cell))));
  page.append(el("h2", {}, "Errors"), el("p", {}, "The type of an error ends in one of these words."), table(["status", "word", "meaning"], problems));
  const schemas = Object.entries(api.components?.schemas ?? {});
  page.append(el("h2", {}, "What bodies hold"), ...schemas.map(schemaBlock));
  menu.append(el("h2", {}, "bodies"), ...schemas.map(([name]) => el("a", { href: `#schema-${name}` }, name)));
  // The browser looked for the place before there was one.
  if (location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
}

try {
  const answer = await fetch("/v1/openapi.json");
  if (!answer.ok) throw new Error(`the node answered ${answer.status}`);
  show(await answer.json());
} catch (error) {
  document.getElementById("page").replaceChildren(el("h1", {}, "The API cannot be shown"), el("p", {}, String(error)), el("p", {}, "Is the node running? Load this page again."));
}
