/**
 * TypeScript for the messages of one .proto file: an empty value whose type is that of the message, a function
 * that writes and one that reads; a message that is only written has an interface instead of the empty value. The
 * text is laid out as the formatter would, so that a check of the format and a check against this generator agree. A
 * client gets no code that reads requests or writes responses, and a server none for the opposite.
 */
import type { ProtoEnum, ProtoField, ProtoFile, ProtoMessage } from "./parse-proto.ts";

/** The end of the connection at which our code is. */
export type Side = "client" | "server" | "both";

/** Callers give all fields of a request with so few. */
const sparseFieldsMin = 3;

interface Directions {
  readonly isWritten: boolean;
  readonly isRead: boolean;
  readonly hasEmpty: boolean;
}

export function messageCode(file: ProtoFile, source: string, side: Side): string {
  const requests = partsOf(file, "Request");
  const responses = partsOf(file, "Response");
  const body = file.messages.flatMap((message) => {
    const [written, read] = side === "client" ? [requests, responses] : [responses, requests];
    const isRead = side === "both" || read.has(message.name);
    const isWritten = side === "both" || written.has(message.name);
    const hasEmpty = isRead || (side === "client" && message.fields.length > sparseFieldsMin);
    return codeOf(file, message, { isWritten, isRead, hasEmpty });
  });
  const used = body.join("\n");
  const types = ["WireBytes", "WireUint64", "WireWriter"].filter((name) => used.includes(name));
  return [
    "/**",
    ` * Generated from ${source} by scripts/gen-codecs.ts. To change it, change that file and run`,
    " * `npm run gen`.",
    " */",
    'import type { WireReader } from "./reader.ts";',
    `import type { ${types.join(", ")} } from "./writer.ts";`,
    "",
    ...body,
  ]
    .join("\n")
    .replace(/\n+$/, "\n");
}

/** Names of the messages with such a name, and of all messages in them. */
function partsOf(file: ProtoFile, ending: string): ReadonlySet<string> {
  const found = new Set(
    file.messages.map(({ name }) => name).filter((name) => name.endsWith(ending)),
  );
  for (const name of found) {
    for (const { type } of messageIn(file, name)?.fields ?? []) {
      if (messageIn(file, type) !== undefined) found.add(type);
    }
  }
  return found;
}

const widthMax = 100;
/** A statement of a branch in the loop of a reader. */
const readIndent = 6;
const timestamp = "google.protobuf.Timestamp";

function codeOf(file: ProtoFile, message: ProtoMessage, directions: Directions): string[] {
  const codeFor = isUnion(message) ? unionCode : recordCode;
  const parts = codeFor(file, message, directions);
  return [...message.enums.flatMap((each) => enumCode(message, each)), ...parts].flatMap((part) => [
    ...part,
    "",
  ]);
}

/** A message that is nothing but one choice becomes the choice itself. */
function isUnion(message: ProtoMessage): boolean {
  return message.oneofs.length === 1 && message.fields.every(({ oneof }) => oneof !== undefined);
}

function enumCode(message: ProtoMessage, each: ProtoEnum): string[][] {
  const values = each.values.map(({ name, number }) => `  ${name}: ${number},`);
  return [[`export const ${lowerFirst(message.name)}${each.name} = {`, ...values, "} as const;"]];
}

function unionCode(
  file: ProtoFile,
  message: ProtoMessage,
  { isWritten, isRead }: Directions,
): string[][] {
  const { name, fields } = message;
  return [
    [...docOf(message.comment, ""), `export type ${name} =`, ...unionOf(file, fields, "  ")],
    ...only(isWritten, () => [
      ...signature(`write${name}`, [`message: ${name}`, "writer: WireWriter"], "void"),
      ...writeChoice(file, fields, "message"),
      "}",
    ]),
    ...only(isRead, () => [
      ...signature(`read${name}`, ["reader: WireReader"], name),
      `  let message: ${name} = { case: undefined };`,
      ...readLoop(fields.map((field) => readMember(file, field, "message"))),
    ]),
  ];
}

function only(isWanted: boolean, part: () => string[]): string[][] {
  return isWanted ? [part()] : [];
}

function recordCode(
  file: ProtoFile,
  message: ProtoMessage,
  { isWritten, isRead, hasEmpty }: Directions,
): string[][] {
  const { name, fields, oneofs } = message;
  const plain = fields.filter(({ oneof }) => oneof === undefined);
  const choices = oneofs.map((oneof) => ({
    property: camel(oneof),
    type: `${name}${upperFirst(camel(oneof))}`,
    fields: fields.filter((field) => field.oneof === oneof),
  }));
  return [
    ...choices.map((choice) => [
      `export type ${choice.type} =`,
      ...unionOf(file, choice.fields, "  "),
    ]),
    ...only(!hasEmpty, () => [
      ...docOf(message.comment, ""),
      `export interface ${name} {`,
      ...plain.flatMap((field) => [
        ...docOf(field.comment, "  "),
        `  ${propertyOf(field)}: ${typeOf(file, field)};`,
      ]),
      ...choices.map(({ property, type }) => `  ${property}: ${type};`),
      "}",
    ]),
    ...only(hasEmpty, () => [
      ...docOf(message.comment, ""),
      `export type ${name} = ReturnType<typeof new${name}>;`,
      "",
      `export function new${name}() {`,
      "  return {",
      ...plain.flatMap((field) => [
        ...docOf(field.comment, "    "),
        `    ${propertyOf(field)}: ${typedEmptyOf(file, field)},`,
      ]),
      ...choices.map(({ property, type }) => `    ${property}: { case: undefined } as ${type},`),
      "  };",
      "}",
    ]),
    ...only(isWritten, () => [
      ...signature(`write${name}`, [`message: ${name}`, "writer: WireWriter"], "void"),
      ...plain.flatMap((field) => writeField(file, field)),
      ...choices.flatMap((choice) =>
        writeChoice(file, choice.fields, `message.${choice.property}`),
      ),
      "}",
    ]),
    ...only(isRead, () => [
      ...signature(`read${name}`, ["reader: WireReader"], name),
      `  const message = new${name}();`,
      ...readLoop([
        ...plain.map((field) => readField(file, field)),
        ...choices.flatMap((choice) =>
          choice.fields.map((field) => readMember(file, field, `message.${choice.property}`)),
        ),
      ]),
    ]),
  ];
}

function unionOf(file: ProtoFile, fields: readonly ProtoField[], by: string): string[] {
  const members = fields.map(
    (field) => `${by}| { case: "${camel(field.name)}"; value: ${typeOf(file, field)} }`,
  );
  return [...members, `${by}| { case: undefined; value?: undefined };`];
}

/** What follows from the field with a tag. */
interface Case {
  readonly tag: number;
  readonly statements: readonly string[];
}

function readLoop(cases: readonly Case[]): string[] {
  const conditions = cases.map(({ tag, statements }) => [`tag === ${tag}`, statements] as const);
  return [
    "  while (reader.more()) {",
    "    const tag = reader.tag();",
    ...chain([...conditions, ["", ["reader.skip(tag);"]]], "    "),
    "  }",
    "  return message;",
    "}",
  ];
}

type Branch = readonly [condition: string, statements: readonly string[]];

/** An if with an else for each further branch; a branch without a condition is the last. */
function chain(branches: readonly Branch[], by: string): string[] {
  const lines: string[] = [];
  let isOpen = false;
  for (const [condition, statements] of branches) {
    const start: string = lines.length === 0 ? "" : isOpen ? "} else " : "else ";
    const head = `${by}${start}${condition === "" ? "" : `if (${condition}) `}`;
    const inside = statements.flatMap((each) => each.split("\n"));
    const isLine = inside.length === 1 && `${head}${inside[0]}`.length <= widthMax;
    // A branch behind one with braces has braces as well, unless it is a line.
    isOpen = !isLine && (statements.length > 1 || isOpen);
    lines.push(...(isLine ? [`${head}${inside[0]}`] : spread(head, inside, isOpen)));
  }
  return isOpen ? [...lines, `${by}}`] : lines;
}

function spread(head: string, inside: readonly string[], isBlock: boolean): string[] {
  const by = `${/^ */.exec(head)?.[0]}  `;
  return [isBlock ? `${head}{` : head.trimEnd(), ...inside.map((each) => by + each)];
}

function writeField(file: ProtoFile, field: ProtoField): string[] {
  const value = `message.${propertyOf(field)}`;
  const tag = tagOf(file, field);
  if (field.repeated && field.type === "int32") return [`  writer.int32sField(${tag}, ${value});`];
  if (field.repeated) {
    return guarded(`for (const each of ${value})`, writeOne(file, field, "each", "Member"));
  }
  if (kindOf(file, field) === "message") {
    return guarded(`if (${value} !== undefined)`, writeOne(file, field, value, "Member"));
  }
  return [`  ${writeOne(file, field, value, "Field")}`];
}

function guarded(condition: string, statement: string): string[] {
  const line = `  ${condition} ${statement}`;
  return line.length <= widthMax ? [line] : [`  ${condition}`, `    ${statement}`];
}

function writeChoice(file: ProtoFile, fields: readonly ProtoField[], choice: string): string[] {
  const branches = fields.map((field): Branch => {
    const statement = writeOne(file, field, `${choice}.value`, "Member");
    return [`${choice}.case === "${camel(field.name)}"`, [statement]];
  });
  return chain(branches, "  ");
}

/** Fields leave out their default; members of a list or of a oneof are always written. */
function writeOne(
  file: ProtoFile,
  field: ProtoField,
  value: string,
  how: "Field" | "Member",
): string {
  const tag = tagOf(file, field);
  const kind = kindOf(file, field);
  if (kind === "message") {
    const guess = lengthBytesOf(file, field.type);
    return `writer.messageMember(${tag}, ${guess}, write${field.type}, ${value});`;
  }
  if (how === "Member" && kind !== "string" && kind !== "bytes") {
    throw new Error(`${field.name}: a ${field.type} cannot be in a list or a oneof`);
  }
  return `writer.${kind}${how}(${tag}, ${value});`;
}

/** One byte holds lengths up to 127, which messages with bytes, lists or many texts often exceed. */
function lengthBytesOf(file: ProtoFile, type: string): 1 | 2 {
  const fields = messageIn(file, type)?.fields ?? [];
  const isLong = fields.length > 5 || fields.some((each) => each.repeated || each.type === "bytes");
  return isLong ? 2 : 1;
}

function readField(file: ProtoFile, field: ProtoField): Case {
  const property = `message.${propertyOf(field)}`;
  const tag = tagOf(file, field);
  if (!field.repeated) return { tag, statements: [`${property} = ${readOne(file, field)};`] };
  if (field.type === "int32") throw new Error(`${field.name}: lists of numbers cannot be read`);
  const push = `${property}.push(${readOne(file, field)});`;
  return { tag, statements: ["reader.countElement();", push] };
}

function readMember(file: ProtoFile, field: ProtoField, target: string): Case {
  const name = `case: "${camel(field.name)}"`;
  const value = `value: ${readOne(file, field)}`;
  const line = `${target} = { ${name}, ${value} };`;
  const isLine = line.length + readIndent <= widthMax;
  const lines = isLine ? line : [`${target} = {`, `  ${name},`, `  ${value},`, "};"].join("\n");
  return { tag: tagOf(file, field), statements: [lines] };
}

function readOne(file: ProtoFile, field: ProtoField): string {
  const kind = kindOf(file, field);
  return kind === "message" ? `reader.message(read${field.type})` : `reader.${kind}()`;
}

type Kind = "string" | "bytes" | "bool" | "int32" | "uint64" | "timestamp" | "message";
const scalars: readonly string[] = ["string", "bytes", "bool", "int32", "uint64"];

function kindOf(file: ProtoFile, field: ProtoField): Kind {
  if (scalars.includes(field.type)) return field.type as Kind;
  if (field.type === timestamp) return "timestamp";
  if (messageIn(file, field.type) !== undefined) return "message";
  const isEnum = file.messages.some(({ enums }) => enums.some(({ name }) => name === field.type));
  if (isEnum) return "int32";
  throw new Error(`${file.name}: the type ${field.type} of ${field.name} is not known`);
}

function messageIn(file: ProtoFile, type: string): ProtoMessage | undefined {
  return file.messages.find(({ name }) => name === type);
}

function tagOf(file: ProtoFile, field: ProtoField): number {
  const kind = kindOf(file, field);
  const isNumber = kind === "bool" || kind === "int32" || kind === "uint64";
  return field.number * 8 + (isNumber && !field.repeated ? 0 : 2);
}

function typeOf(file: ProtoFile, field: ProtoField): string {
  const kind = kindOf(file, field);
  const one = {
    string: "string",
    bytes: "WireBytes",
    bool: "boolean",
    int32: "number",
    uint64: "WireUint64",
    timestamp: "number | undefined",
    message: field.type,
  }[kind];
  if (field.repeated) return `${one}[]`;
  return kind === "message" && field.oneof === undefined ? `${one} | undefined` : one;
}

function emptyOf(file: ProtoFile, field: ProtoField): string {
  if (field.repeated) return "[]";
  return {
    string: '""',
    bytes: '""',
    bool: "false",
    int32: "0",
    uint64: "0",
    timestamp: "undefined",
    message: "undefined",
  }[kindOf(file, field)];
}

/** The empty value of a field, with the type of the field where the value does not have it. */
function typedEmptyOf(file: ProtoFile, field: ProtoField): string {
  const type = typeOf(file, field);
  const isTyped = ["string", "boolean", "number"].includes(type);
  return isTyped ? emptyOf(file, field) : `${emptyOf(file, field)} as ${type}`;
}

function propertyOf(field: ProtoField): string {
  return field.type === timestamp ? `${camel(field.name)}Ms` : camel(field.name);
}

function signature(name: string, parameters: readonly string[], result: string): string[] {
  const line = `export function ${name}(${parameters.join(", ")}): ${result} {`;
  if (line.length <= widthMax) return [line];
  return [`export function ${name}(`, ...parameters.map((each) => `  ${each},`), `): ${result} {`];
}

function docOf(comment: readonly string[], by: string): string[] {
  const [first = "", ...rest] = comment;
  if (comment.length === 0) return [];
  if (rest.length === 0) return [`${by}/** ${first} */`];
  return [`${by}/**`, ...comment.map((line) => `${by} * ${line}`), `${by} */`];
}

export function camel(name: string): string {
  return name.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
}

function upperFirst(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function lowerFirst(text: string): string {
  return text.charAt(0).toLowerCase() + text.slice(1);
}
