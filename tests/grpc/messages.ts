/**
 * The messages of a stream as an independent implementation reads and writes them, from the .proto
 * files as they are now.
 */
import { join } from "node:path";
import protobuf from "protobufjs";

const protoFolder = join(import.meta.dirname, "../../proto");

export function loadProto(file: string, options: protobuf.IParseOptions = {}): protobuf.Root {
  const root = new protobuf.Root();
  root.resolvePath = (_origin, target) => join(protoFolder, target);
  return root.loadSync(file, options);
}

/** An event as plain fields; bytes may be given as text. */
export type Fields = Readonly<Record<string, unknown>>;

/** An event, or the bytes of something that is none. */
export type Sendable = Fields | Buffer;

// biome-ignore lint/suspicious/noExplicitAny: tests look into replies of every shape.
export type Reply = Record<string, any>;

export interface MethodCodec {
  readonly path: string;
  encode(event: Sendable): Buffer;
  /**
   * The fields that clients of any make know, also those that were left out; 64 bits as text. Bytes
   * are buffers.
   */
  decode(bytes: Uint8Array): Reply;
  /** The same with the additions of this server. */
  decodeAll(bytes: Uint8Array): Reply;
}

export function methodCodec(root: protobuf.Root, service: string, method: string): MethodCodec {
  const found = root.lookupService(service).methods[method];
  if (found === undefined) throw new Error(`${service} has no ${method}`);
  found.resolve();
  const { resolvedRequestType, resolvedResponseType } = found;
  if (resolvedRequestType === null || resolvedResponseType === null) throw new Error("no types");
  const decodeAll = (bytes: Uint8Array): Reply =>
    resolvedResponseType.toObject(resolvedResponseType.decode(bytes), {
      defaults: true,
      longs: String,
      bytes: Buffer,
    });
  return {
    path: `/${service}/${method}`,
    encode: (event) => {
      if (Buffer.isBuffer(event)) return event;
      const message = resolvedRequestType.fromObject(withBytes(event) as Record<string, unknown>);
      return Buffer.from(resolvedRequestType.encode(message).finish());
    },
    decode: (bytes) => withoutAdditions(decodeAll(bytes)) as Reply,
    decodeAll,
  };
}

const additions = new Set([
  "instance",
  "errorCode",
  "traceParent",
  "traceState",
  "replayOf",
  "deduplicated",
]);

/** Reflection has an `errorCode` of its own, which is a number; tokens are new in what has an `ok`. */
function withoutAdditions(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutAdditions);
  if (typeof value !== "object" || value === null || Buffer.isBuffer(value)) return value;
  const isAck = "ok" in value;
  const known = Object.entries(value).filter(([name, field]) => {
    if (isAck && name === "leaseToken") return false;
    if (name === "cancelled") return field === true;
    return !additions.has(name) || typeof field === "number";
  });
  return Object.fromEntries(known.map(([name, field]) => [name, withoutAdditions(field)]));
}

/** The library takes text for base64. */
function withBytes(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withBytes);
  if (typeof value !== "object" || value === null || Buffer.isBuffer(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, field]) => [
      name,
      (name === "payload" || name === "resultJson") && typeof field === "string"
        ? Buffer.from(field)
        : withBytes(field),
    ]),
  );
}

const workerRoot = loadProto("workerpb.proto");
const producerRoot = loadProto("producerpb.proto");

export const workerStream: MethodCodec = methodCodec(workerRoot, "workerpb.WorkerStream", "Stream");
export const producerStream: MethodCodec = methodCodec(
  producerRoot,
  "producerpb.ProducerStream",
  "Stream",
);
