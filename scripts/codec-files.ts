/**
 * The files that follow from proto/: codecs of the messages, and descriptors for reflection. What is
 * in the repository has to be equal to this; a test compares them.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileDescriptorBytes, symbolsOf } from "./codecs/file-descriptor.ts";
import { messageCode, type Side } from "./codecs/message-code.ts";
import { type ProtoFile, parseProto } from "./codecs/parse-proto.ts";

const root = join(import.meta.dirname, "..");
const target = "packages/protocol/src/wire";
const base64Width = 88;

type Source = readonly [name: string, codecs?: string, side?: Side];
/** Each .proto with the file of its codecs; Timestamp has none, it is a number to our code. */
const sources: readonly Source[] = [
  ["google/protobuf/timestamp.proto"],
  ["grpc/health/v1/health.proto", "health-messages.ts", "server"],
  ["grpc/reflection/v1/reflection.proto", "reflection-messages.ts", "server"],
  ["producerpb.proto", "producer-messages.ts", "both"],
  ["workerpb.proto", "worker-messages.ts", "both"],
];
/** Of a server that this one calls, so reflection does not list it. */
const called: readonly Source[] = [["etcd.proto", "etcd-messages.ts", "client"]];

export function codecFiles(): Map<string, string> {
  const files = new Map<string, string>();
  const parsed: ProtoFile[] = [];
  const read = ([name, codecs, side = "both"]: Source): ProtoFile => {
    const file = parseProto(name, readFileSync(join(root, "proto", name), "utf8"));
    if (codecs !== undefined) {
      files.set(`${target}/${codecs}`, messageCode(file, `proto/${name}`, side));
    }
    return file;
  };
  for (const source of called) read(source);
  for (const source of sources) {
    const file = read(source);
    parsed.push(file);
    if (file.package === "grpc.reflection.v1") parsed.push(alphaOf(file));
  }
  files.set(`${target}/file-descriptors.ts`, descriptorCode(parsed));
  return files;
}

/** Older tools ask for reflection under this name; the messages are the same. */
function alphaOf(file: ProtoFile): ProtoFile {
  const alpha = (name: string) => name.replace(/([/.])v1([/.]|$)/, "$1v1alpha$2");
  return { ...file, name: alpha(file.name), package: alpha(file.package) };
}

function descriptorCode(files: readonly ProtoFile[]): string {
  return [
    "/**",
    " * Generated from proto/ by scripts/gen-codecs.ts: what reflection tells about each file. To change",
    " * it, change the .proto and run `npm run gen`.",
    " */",
    "export interface FileDescriptor {",
    "  readonly name: string;",
    "  readonly imports: readonly string[];",
    "  readonly services: readonly string[];",
    "  /** Full names of messages, enums, services and methods. */",
    "  readonly symbols: readonly string[];",
    "  /** A serialized FileDescriptorProto. */",
    "  readonly base64: string;",
    "}",
    "",
    "export const fileDescriptors: readonly FileDescriptor[] = [",
    ...files.flatMap((file) => entryOf(file)),
    "];",
    "",
  ].join("\n");
}

function entryOf(file: ProtoFile): string[] {
  const base64 = fileDescriptorBytes(file).toString("base64");
  const pieces = base64.match(new RegExp(`.{1,${base64Width}}`, "g")) ?? [];
  const services = file.services.map(({ name }) => `${file.package}.${name}`);
  return [
    "  {",
    `    name: "${file.name}",`,
    ...list("imports", file.imports),
    ...list("services", services),
    ...list("symbols", symbolsOf(file)),
    "    base64: [",
    ...pieces.map((piece) => `      "${piece}",`),
    '    ].join(""),',
    "  },",
  ];
}

function list(name: string, values: readonly string[]): string[] {
  const inline = `    ${name}: [${values.map((value) => `"${value}"`).join(", ")}],`;
  if (inline.length <= 100) return [inline];
  return [`    ${name}: [`, ...values.map((value) => `      "${value}",`), "    ],"];
}
