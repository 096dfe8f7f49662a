/** Every message, in both directions, against an independent implementation. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import fc from "fast-check";
import protobuf from "protobufjs";
import * as etcd from "./etcd-messages.ts";
import * as health from "./health-messages.ts";
import * as producer from "./producer-messages.ts";
import { decodeMessage, WireError, type WireRead } from "./reader.ts";
import * as reflection from "./reflection-messages.ts";
import * as worker from "./worker-messages.ts";
import { encodeMessage, type WireWrite } from "./writer.ts";

type Fields = Record<string, unknown>;
type Generated = Readonly<Record<string, unknown>>;

const protoFolder = join(import.meta.dirname, "../../../../proto");
const files: readonly [file: string, space: string, generated: Generated][] = [
  ["workerpb.proto", "workerpb", worker],
  ["producerpb.proto", "producerpb", producer],
  ["grpc/health/v1/health.proto", "grpc.health.v1", health],
  ["grpc/reflection/v1/reflection.proto", "grpc.reflection.v1", reflection],
  ["etcd.proto", "etcdserverpb", etcd],
];

/** A message that only clients send has no `read` there, and one that only servers send no `write`. */
interface Codec {
  readonly type: protobuf.Type;
  readonly write: WireWrite<unknown> | undefined;
  readonly read: WireRead<unknown> | undefined;
}

function codecs(): Codec[] {
  return files.flatMap(([file, space, generated]) => {
    const root = new protobuf.Root();
    root.resolvePath = (_origin, target) => join(protoFolder, target);
    root.loadSync(file);
    const namespace = root.lookup(space) as protobuf.Namespace;
    return namespace.nestedArray
      .filter((nested): nested is protobuf.Type => nested instanceof protobuf.Type)
      .map((type) => ({
        type,
        write: generated[`write${type.name}`] as Codec["write"],
        read: generated[`read${type.name}`] as Codec["read"],
      }));
  });
}

const long = (value: bigint) => ({
  low: Number(value & 0xffffffffn) | 0,
  high: Number(value >> 32n) | 0,
  unsigned: true,
});
const exact = (value: bigint) => (value <= Number.MAX_SAFE_INTEGER ? Number(value) : value);
const uint64s = fc.oneof(
  fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
  fc.constantFrom(0n, 1n, 127n, 128n, 2n ** 32n, 2n ** 53n - 1n, 2n ** 53n, 2n ** 64n - 1n),
);
const texts = fc.oneof(
  fc.string({ unit: "binary", maxLength: 60 }),
  fc.string({ unit: "grapheme-ascii", maxLength: 300 }),
  fc.constantFrom("", "\ufffd", "\ufeffa", "é".repeat(64), "x".repeat(1500), "日本".repeat(700)),
);
const moments = fc.integer({ min: -62_135_596_800_000, max: 253_402_300_799_999 });

/** A value as our code has it, and as the oracle has it. `undefined` stands for a field left out. */
type Pair = readonly [ours: unknown, theirs: unknown];

function oneOf(field: protobuf.Field): fc.Arbitrary<Pair> {
  field.resolve();
  if (field.resolvedType instanceof protobuf.Enum) {
    return fc.integer({ min: 0, max: 5 }).map((value) => [value, value]);
  }
  if (field.type.endsWith("google.protobuf.Timestamp")) {
    return moments.map((ms) => [ms, timestampOf(ms)]);
  }
  if (field.resolvedType instanceof protobuf.Type) return messagePairs(field.resolvedType);
  switch (field.type) {
    case "string":
      return texts.map((value) => [value, value]);
    case "bytes":
      return fc.uint8Array({ maxLength: 200 }).map((value) => [Buffer.from(value), value]);
    case "bool":
      return fc.boolean().map((value) => [value, value]);
    case "int32":
      return fc.oneof(fc.integer(), fc.constantFrom(0, 127, -1)).map((value) => [value, value]);
    case "uint64":
      return uint64s.map((value) => [exact(value), long(value)]);
    default:
      throw new Error(`no values for ${field.type}`);
  }
}

const nameOf = (field: protobuf.Field) =>
  field.type.endsWith("google.protobuf.Timestamp") ? `${field.name}Ms` : field.name;

function emptyOf(field: protobuf.Field): unknown {
  if (field.repeated) return [];
  if (field.resolvedType instanceof protobuf.Type) return undefined;
  if (field.resolvedType instanceof protobuf.Enum) return 0;
  return { string: "", bytes: "", bool: false, int32: 0, uint64: 0 }[field.type];
}

function isEmpty(value: unknown): boolean {
  return value === "" || value === 0 || value === false || (value as Buffer)?.length === 0;
}

function fieldPairs(field: protobuf.Field): fc.Arbitrary<Pair> {
  field.resolve();
  if (field.repeated) {
    return fc
      .array(oneOf(field), { maxLength: 4 })
      .map((pairs) => [pairs.map(([ours]) => ours), pairs.map(([, theirs]) => theirs)]);
  }
  return fc.option(oneOf(field), { nil: undefined }).map((pair) => {
    if (pair === undefined) return [emptyOf(field), undefined];
    if (field.resolvedType instanceof protobuf.Type || !isEmpty(pair[0])) return pair;
    return [emptyOf(field), undefined];
  });
}

function timestampOf(ms: number): Fields {
  const seconds = Math.floor(ms / 1000);
  const nanos = (ms - seconds * 1000) * 1_000_000;
  return { ...(seconds === 0 ? {} : { seconds }), ...(nanos === 0 ? {} : { nanos }) };
}

function messagePairs(type: protobuf.Type): fc.Arbitrary<Pair> {
  const plain = type.fieldsArray.filter((field) => field.partOf === null);
  const isUnion = plain.length === 0 && type.oneofsArray.length === 1;
  const parts = fc.tuple(
    fc.tuple(...plain.map((field) => fieldPairs(field))),
    fc.tuple(...type.oneofsArray.map((oneof) => memberPairs(oneof))),
  );
  return parts.map(([values, members]) => {
    const ours: Fields = {};
    const theirs: Fields = {};
    for (const [index, field] of plain.entries()) {
      const [own, other] = values[index]!;
      ours[nameOf(field)] = own;
      if (other !== undefined) theirs[field.name] = other;
    }
    for (const [index, oneof] of type.oneofsArray.entries()) {
      const [own, other] = members[index]!;
      ours[oneof.name] = own;
      Object.assign(theirs, other);
    }
    return [isUnion ? ours[type.oneofsArray[0]!.name] : ours, theirs];
  });
}

function memberPairs(oneof: protobuf.OneOf): fc.Arbitrary<Pair> {
  return fc.oneof(
    fc.constant<Pair>([{ case: undefined }, {}]),
    ...oneof.fieldsArray.map((field) =>
      oneOf(field).map<Pair>(([ours, theirs]) => [
        { case: field.name, value: ours },
        { [field.name]: theirs },
      ]),
    ),
  );
}

test("every message is written or read", () => {
  for (const { type, write, read } of codecs()) assert.ok(write ?? read, type.fullName);
});

for (const { type, write, read } of codecs()) {
  test(`${type.fullName.slice(1)} is written and read as the oracle does`, () => {
    fc.assert(
      fc.property(messagePairs(type), ([ours, theirs]) => {
        const bytes = Buffer.from(type.encode(theirs as Fields).finish());
        if (write !== undefined) assert.deepEqual(encodeMessage(write, ours), bytes);
        if (read === undefined) return;
        assert.deepEqual(decodeMessage(read, bytes), ours);
        // What the oracle reads and writes again, also with the defaults spelled out.
        const full = type.toObject(type.decode(bytes), { defaults: true, longs: String });
        const spelled = type.encode(type.fromObject(withoutNulls(full))).finish();
        const again = decodeMessage(read, spelled);
        if (write !== undefined) assert.deepEqual(encodeMessage(write, again), bytes);
      }),
      { numRuns: 100 },
    );
  });

  if (read === undefined) continue;
  test(`${type.fullName.slice(1)} that is damaged is refused or read, and nothing else happens`, () => {
    const damages = fc.array(fc.tuple(fc.nat(), fc.integer({ min: 0, max: 255 })), {
      maxLength: 4,
    });
    fc.assert(
      fc.property(messagePairs(type), damages, fc.nat(), ([, theirs], changes, cut) => {
        const bytes = Buffer.from(type.encode(theirs as Fields).finish());
        for (const [at, value] of changes) bytes[at % Math.max(1, bytes.length)] = value;
        readOrRefuse(read, bytes);
        readOrRefuse(read, bytes.subarray(0, cut % (bytes.length + 1)));
      }),
      { numRuns: 50 },
    );
  });

  test(`${type.fullName.slice(1)} read from arbitrary bytes is refused or read`, () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => readOrRefuse(read, bytes)),
      { numRuns: 100 },
    );
  });
}

function withoutNulls(value: unknown): Fields {
  if (Array.isArray(value)) return value.map(withoutNulls) as unknown as Fields;
  if (value === null || typeof value !== "object" || ArrayBuffer.isView(value)) {
    return value as Fields;
  }
  const kept = Object.entries(value).filter(([, each]) => each !== null);
  return Object.fromEntries(kept.map(([name, each]) => [name, withoutNulls(each)]));
}

function readOrRefuse(read: WireRead<unknown>, bytes: Uint8Array): void {
  try {
    decodeMessage(read, bytes);
  } catch (error) {
    assert.ok(error instanceof WireError, String(error));
  }
}
