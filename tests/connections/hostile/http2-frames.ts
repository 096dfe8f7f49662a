/** HTTP/2 by hand, for what no library would send. Headers are literals, so no state is needed. */
export const frameTypes = {
  data: 0,
  headers: 1,
  priority: 2,
  reset: 3,
  settings: 4,
  ping: 6,
  windowUpdate: 8,
  continuation: 9,
  unknown: 0x40,
} as const;

export const endStream = 0x1;
export const endHeaders = 0x4;
export const padded = 0x8;
const acknowledged = 0x1;
const frameHeadBytes = 9;

export function frame(
  type: keyof typeof frameTypes,
  { flags = 0, stream = 0, body = Buffer.alloc(0) }: FrameParts = {},
): Buffer {
  const head = Buffer.alloc(frameHeadBytes);
  head.writeUIntBE(body.length, 0, 3);
  head.writeUInt8(frameTypes[type], 3);
  head.writeUInt8(flags, 4);
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, body]);
}

interface FrameParts {
  readonly flags?: number;
  readonly stream?: number;
  readonly body?: Buffer;
}

/** What a client says first. */
export const greeting: Buffer = Buffer.concat([
  Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "latin1"),
  frame("settings"),
  frame("settings", { flags: acknowledged }),
]);

/** A header as a literal; `kept` puts it into the table of the other end, as its first entry. */
export function header(name: string, value: string, kept = false): Buffer {
  return Buffer.concat([Buffer.from([kept ? 0x40 : 0]), text(name), text(value)]);
}

/** The header that was put into the table last. */
export const keptHeader = 0xbe;

/** The headers of a call. */
export function callHeaders(path: string, more: Readonly<Record<string, string>> = {}): Buffer {
  const fields = { ":method": "POST", ":path": path, "content-type": "application/grpc" };
  return headersOf({ ...fields, te: "trailers", ...more });
}

/** Those of HTTP/2 come first. */
export function headersOf(fields: Readonly<Record<string, string>>): Buffer {
  const all = { ":scheme": "http", ":authority": "localhost", ...fields };
  return Buffer.concat(Object.entries(all).map(([name, value]) => header(name, value)));
}

/** A length of seven bits, with the rest in further bytes. */
function text(value: string): Buffer {
  const bytes = Buffer.from(value);
  const prefix = [Math.min(bytes.length, 127)];
  for (let rest = bytes.length - 127; rest >= 0; rest = rest < 128 ? -1 : rest >> 7) {
    prefix.push(rest < 128 ? rest : (rest & 127) | 128);
  }
  return Buffer.concat([Buffer.from(prefix), bytes]);
}

/** Answers the pings of the server, so that it believes in the client; gives the other frames. */
export class FrameSplitter {
  #rest: Buffer = Buffer.alloc(0);
  readonly #reply: (bytes: Buffer) => void;

  constructor(reply: (bytes: Buffer) => void) {
    this.#reply = reply;
  }

  push(chunk: Buffer): { type: number; stream: number; body: Buffer }[] {
    this.#rest = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    const frames: { type: number; stream: number; body: Buffer }[] = [];
    while (this.#rest.length >= frameHeadBytes) {
      const end = frameHeadBytes + this.#rest.readUIntBE(0, 3);
      if (this.#rest.length < end) break;
      const type = this.#rest.readUInt8(3);
      const flags = this.#rest.readUInt8(4);
      const body = this.#rest.subarray(frameHeadBytes, end);
      if (type === frameTypes.ping && (flags & acknowledged) === 0) {
        this.#reply(frame("ping", { flags: acknowledged, body: Buffer.from(body) }));
      } else {
        frames.push({ type, stream: this.#rest.readUInt32BE(5), body });
      }
      this.#rest = this.#rest.subarray(end);
    }
    return frames;
  }
}
