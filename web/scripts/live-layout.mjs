// Where the fields of the live stream lie and what its codes are called: schema/live.xml to src/live/layout.ts.
// `node scripts/live-layout.mjs` writes it; `--check` only says whether it is stale.
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const SCHEMA = fileURLToPath(new URL("../../schema/live.xml", import.meta.url));
const WORDS = fileURLToPath(new URL("../../schema/words.txt", import.meta.url));
const LAYOUT = fileURLToPath(new URL("../src/live/layout.ts", import.meta.url));
const BYTES = { uint8: 1, uint16: 2, uint32: 4, uint64: 8, int64: 8 };
/** Enums of the schema and what their words are called in the page. */
const LISTS = {
  Status: "STATUSES",
  Reason: "REASONS",
  Refusal: "VERDICTS",
  Pacing: "PACINGS",
  Kind: "KINDS",
  Period: "PERIODS",
};

/** Elements of the schema as a tree of {tag, attributes, children, text}: this schema needs no more of XML. */
function parse(xml) {
  const root = { tag: "", attributes: {}, children: [], text: "" };
  const open = [root];
  for (const [, close, tag, attributes, empty, text] of xml
    .replace(/<!--[\s\S]*?-->|<\?[\s\S]*?\?>/g, "")
    .matchAll(/<(\/?)([\w:]+)((?:\s+[\w:]+="[^"]*")*)\s*(\/?)>([^<]*)/g)) {
    if (close) {
      open.pop();
      continue;
    }
    const named = Object.fromEntries(
      [...attributes.matchAll(/([\w:]+)="([^"]*)"/g)].map(([, name, value]) => [name, value]),
    );
    const element = { tag: tag.replace(/^\w+:/, ""), attributes: named, children: [], text: text.trim() };
    open.at(-1).children.push(element);
    if (!empty) open.push(element);
  }
  if (open.length !== 1) throw new Error(`${SCHEMA}: an element is not closed`);
  return root.children[0];
}

const children = (element, tag) => element.children.filter((child) => child.tag === tag);

function sizesOf(types) {
  const sizes = { ...BYTES };
  for (const { attributes } of types.filter(({ tag }) => tag === "type"))
    sizes[attributes.name] = BYTES[attributes.primitiveType] * Number(attributes.length ?? 1);
  for (const { attributes } of types.filter(({ tag }) => tag === "enum" || tag === "set"))
    sizes[attributes.name] = BYTES[attributes.encodingType];
  return sizes;
}

/** Fields one after the other, without padding. */
function offsetsOf(fields, sizes, block) {
  let at = 0;
  const lines = fields.map(({ attributes: { name, type } }) => {
    const size = sizes[type];
    if (size === undefined) throw new Error(`${block}.${name}: the type ${type} is unknown`);
    if (at % Math.min(size, 4) !== 0)
      throw new Error(`${block}.${name} lies at ${at}, which is no multiple of its length or of 4`);
    const line = `${name}: ${at}`;
    at += size;
    return line;
  });
  if (at % 4 !== 0) throw new Error(`${block} has ${at} bytes, which is no multiple of 4`);
  return { bytes: at, lines };
}

function constant(name, about, lines) {
  const rows = [];
  for (const line of lines) {
    const last = rows.at(-1);
    if (last !== undefined && last.length + line.length < 110) rows[rows.length - 1] = `${last}, ${line}`;
    else rows.push(line);
  }
  return `/** ${about} */\nexport const ${name} = {\n${rows.map((row) => `  ${row},`).join("\n")}\n} as const;\n`;
}

const upper = (name) => name.replace(/([a-z])([A-Z])/g, "$1_$2").toUpperCase();

function block(name, about, fields, sizes, extra) {
  const { bytes, lines } = offsetsOf(fields, sizes, name);
  return constant(name, about, [...extra, `bytes: ${bytes}`, ...lines]);
}

/** Groups are named by the first message that has them; one of the same name must be the same everywhere. */
function groupsOf(messages, sizes) {
  const groups = new Map();
  for (const message of messages) {
    for (const group of children(message, "group")) {
      const { name } = group.attributes;
      const text = block(
        `${upper(name)}_ENTRY`,
        `An entry of the group ${name}: bytes from its beginning.`,
        children(group, "field"),
        sizes,
        [],
      );
      if (groups.has(name) && groups.get(name) !== text)
        throw new Error(`the group ${name} of ${message.attributes.name} differs from an earlier one`);
      groups.set(name, text);
    }
  }
  return [...groups.values()];
}

const words = (values) => values.map((value) => `"${value}"`).join(", ");

/** The index is the code; gaps and "nothing to say" are empty. */
function list(element) {
  const codes = [];
  for (const { attributes, text } of children(element, "validValue"))
    codes[Number(text)] = attributes.name === "NONE" ? "" : attributes.name.toLowerCase();
  const dense = Array.from(codes, (code) => code ?? "");
  return `/** ${element.attributes.description}; the index is the code. */\nexport const ${LISTS[element.attributes.name]} = [${words(dense)}] as const;\n`;
}

function flags(set) {
  const choices = children(set, "choice").map(({ attributes, text }) => ({
    name: attributes.name,
    bit: Number(text),
  }));
  const names = [];
  for (const { name, bit } of choices) names[bit] = name;
  return (
    `/** ${set.attributes.description}; the index is the bit. */\nexport const FLAG_NAMES = [${words(Array.from(names, (name) => name ?? ""))}] as const;\n` +
    `export const FLAG = { ${choices.map(({ name, bit }) => `${name}: ${1 << bit}`).join(", ")} } as const;\n`
  );
}

/** What codes mean, as `weir why` says it, too. */
function sentences(text) {
  const lines = text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  const rows = lines.map((line) => {
    const at = line.indexOf(" ");
    if (at < 1) throw new Error(`${WORDS}: "${line}" is no code and its sentence`);
    return `  ${line.slice(0, at)}: ${JSON.stringify(line.slice(at + 1))},`;
  });
  return `/** What a code means, as a sentence; from schema/words.txt. */\nexport const SENTENCES: Readonly<Record<string, string>> = {\n${rows.join("\n")}\n};\n`;
}

/** Text of src/live/layout.ts. */
export function layoutOf(xml, words) {
  const schema = parse(xml);
  const types = children(schema, "types").flatMap((element) => element.children);
  const sizes = sizesOf(types);
  const messages = children(schema, "message");
  const composite = (name) =>
    types
      .find(({ tag, attributes }) => tag === "composite" && attributes.name === name)
      .children.map(({ attributes }) => ({
        attributes: { name: attributes.name, type: attributes.primitiveType },
      }));
  return [
    "// Generated from schema/live.xml and schema/words.txt by scripts/live-layout.mjs; do not edit.\n",
    `export const SCHEMA = { id: ${schema.attributes.id}, version: ${schema.attributes.version} } as const;\n`,
    constant(
      "TEMPLATE",
      "Template ids.",
      messages.map(
        ({ attributes }) =>
          `${attributes.name[0].toLowerCase()}${attributes.name.slice(1)}: ${attributes.id}`,
      ),
    ),
    block(
      "MESSAGE_HEADER",
      "Before every message: bytes from its beginning.",
      composite("messageHeader"),
      sizes,
      [],
    ),
    block("GROUP_HEADER", "Before the entries of every group.", composite("groupSizeEncoding"), sizes, []),
    ...messages.map((message) =>
      block(
        `${upper(message.attributes.name)}_BLOCK`,
        `The root block of ${message.attributes.name}: bytes from its beginning.`,
        children(message, "field"),
        sizes,
        [],
      ),
    ),
    ...groupsOf(messages, sizes),
    ...types.filter(({ tag, attributes }) => tag === "enum" && attributes.name in LISTS).map(list),
    ...types.filter(({ tag }) => tag === "set").map(flags),
    sentences(words),
  ].join("\n");
}

/** Is what is written what the schema says? */
export const isStale = () => readFileSync(LAYOUT, "utf8") !== written();

function written() {
  return layoutOf(readFileSync(SCHEMA, "utf8"), readFileSync(WORDS, "utf8"));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  if (!process.argv.includes("--check")) writeFileSync(LAYOUT, written());
  else if (isStale()) {
    console.error(
      "src/live/layout.ts is older than schema/live.xml or schema/words.txt: run node scripts/live-layout.mjs",
    );
    process.exit(1);
  }
}
