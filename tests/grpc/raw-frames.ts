/** HTTP/2 by hand, for what neither a library nor a person would send. */
import { once } from "node:events";
import { connect, type Socket } from "node:net";

export const frameTypes = {
  data: 0,
  headers: 1,
  priority: 2,
  reset: 3,
  settings: 4,
  ping: 6,
  goAway: 7,
  windowUpdate: 8,
  continuation: 9,
} as const;

export const flags = { endStream: 1, acknowledge: 1, endHeaders: 4 } as const;

interface Frame {
  readonly type: number;
  readonly flags?: number;
  readonly stream?: number;
  readonly body?: Buffer;
}

const headerBytes = 9;
const nothing = Buffer.alloc(0);
const preface = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "latin1");

export function frameBytes({ type, flags: bits = 0, stream = 0, body = nothing }: Frame): Buffer {
  const frame = Buffer.alloc(headerBytes + body.length);
  frame.writeUIntBE(body.length, 0, 3);
  frame[3] = type;
  frame[4] = bits;
  frame.writeUInt32BE(stream, 5);
  frame.set(body, headerBytes);
  return frame;
}

const settingsTaken = frameBytes({ type: frameTypes.settings, flags: flags.acknowledge });

/** A field of a header block, spelled out and remembered by nobody. */
export function field(name: string, value: string): Buffer {
  return Buffer.concat([Buffer.from([0]), text(name), text(value)]);
}

function text(value: string): Buffer {
  const bytes = Buffer.from(value, "latin1");
  return Buffer.concat([length(bytes.length), bytes]);
}

/** A length in seven bits and as many bytes more as it takes. */
function length(value: number): Buffer {
  const most = 127;
  if (value < most) return Buffer.from([value]);
  const bytes = [most];
  for (let rest = value - most; ; rest = Math.floor(rest / 128)) {
    if (rest < 128) return Buffer.from([...bytes, rest]);
    bytes.push((rest % 128) + 128);
  }
}

/** The header block of a call. */
export function callBlock(path: string, more: readonly Buffer[] = []): Buffer {
  return Buffer.concat([
    field(":method", "POST"),
    field(":scheme", "http"),
    field(":authority", "x"),
    field(":path", path),
    field("content-type", "application/grpc"),
    field("te", "trailers"),
    ...more,
  ]);
}

export function callFrame(stream: number, path: string): Buffer {
  return frameBytes({
    type: frameTypes.headers,
    flags: flags.endHeaders,
    stream,
    body: callBlock(path),
  });
}

/** A connection on which the opening has been said and nothing else. */
export class RawFrames {
  readonly socket: Socket;
  isClosed = false;

  private constructor(socket: Socket) {
    this.socket = socket;
    socket.on("error", () => {
      // The server may cut the connection while it is being written to.
    });
    socket.once("close", () => {
      this.isClosed = true;
    });
  }

  static async open(port: number): Promise<RawFrames> {
    const socket = connect(port, "127.0.0.1");
    const connection = new RawFrames(socket);
    await once(socket, "connect");
    socket.write(Buffer.concat([preface, frameBytes({ type: frameTypes.settings })]));
    // The settings of the server come first, and hold from when they are acknowledged.
    await once(socket, "data");
    socket.pause();
    socket.write(settingsTaken);
    return connection;
  }

  /** How often the server has changed its settings. */
  settingsRead = 0;

  /** Reads what the server says, acknowledges its settings and forgets the rest. */
  read(): void {
    let rest = nothing;
    this.socket.on("data", (chunk) => {
      rest = Buffer.concat([rest, chunk]);
      while (rest.length >= headerBytes) {
        const end = headerBytes + rest.readUIntBE(0, 3);
        if (rest.length < end) return;
        if (rest[3] === frameTypes.settings && rest[4] === 0) {
          this.socket.write(settingsTaken);
          this.settingsRead += 1;
        }
        rest = rest.subarray(end);
      }
    });
    this.socket.resume();
  }

  /** Resolves when the bytes have left, or when the server has closed the connection. */
  send(...frames: readonly Buffer[]): Promise<void> {
    return new Promise((resolve) => {
      if (this.isClosed) resolve();
      else this.socket.write(Buffer.concat(frames), () => resolve());
    });
  }

  close(): void {
    this.socket.destroy();
  }
}
