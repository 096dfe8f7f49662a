/**
 * Receives the bodies of requests that were admitted. A body is counted in the memory for input until its request is
 * answered, and is kept in one buffer, whatever the size of the pieces in which it arrives. Senders that are too slow
 * are cut off. The body of a request without an authenticated caller is dropped.
 */
import type { IncomingMessage } from "node:http";
import type { TenantId } from "@codeq/queue";
import type { Clock } from "../../core/clock.ts";
import type { InFlight, Input } from "../in-flight.ts";
import { type HttpReply, problemOf } from "./route.ts";

/** A body that was not received; the reply says why. */
export class RefusedBody extends Error {
  readonly reply: HttpReply;

  constructor(reply: HttpReply) {
    super(String(reply.status));
    this.reply = reply;
  }
}

/** After this time, and every so often, a sender must have sent at this rate on average. */
const slowCheckMs = 5000;
const bytesPerSecondMin = 16 * 1024;
const firstBytes = 16 * 1024;

const noRoom = problemOf(
  "overloaded",
  "the server has no memory left for this body, or for your tenant's; send it again, fewer at a time",
);
const tooSlow = problemOf(
  "body_too_slow",
  `the body arrives more slowly than ${bytesPerSecondMin} bytes a second; send it again`,
);
/** Never read: the caller has closed the connection. */
const aborted = problemOf(
  "invalid_body",
  "the connection was closed before the whole body arrived",
);
const wrongLength = problemOf("invalid_body", "invalid body: it has not the announced length");

interface SentBody {
  readonly tenantId: TenantId;
  readonly bytesMax: number;
  readonly tooLarge: () => HttpReply;
}

/** A whole body. Its memory is counted until `input` holds nothing. */
export interface WholeBody {
  readonly body: Buffer;
  readonly input: Input;
}

export class RequestBodies {
  readonly #inFlight: InFlight;
  readonly #clock: Clock;
  readonly #onAborted: () => void;

  constructor(parts: {
    readonly inFlight: InFlight;
    readonly clock: Clock;
    readonly onAborted: () => void;
  }) {
    this.#inFlight = parts.inFlight;
    this.#clock = parts.clock;
    this.#onAborted = parts.onAborted;
  }

  receive(
    request: IncomingMessage,
    { tenantId, bytesMax, tooLarge }: SentBody,
    done: (received: RefusedBody | WholeBody) => void,
  ): void {
    const announced = Number(request.headers["content-length"] ?? Number.NaN);
    if (announced > bytesMax) {
      done(new RefusedBody(tooLarge()));
      return;
    }
    const assembly = new Assembly(Number.isNaN(announced) ? bytesMax : announced);
    const refuse = (reply: HttpReply): void => {
      stop();
      input.hold(0);
      assembly.drop();
      // What still arrives is dropped, instead of waiting in memory until the refusal can be sent.
      request.resume();
      done(new RefusedBody(reply));
    };
    const input: Input = this.#inFlight.open(tenantId, () => refuse(noRoom));
    const onData = (chunk: Buffer): void => {
      if (assembly.bytes + chunk.length > bytesMax) {
        refuse(tooLarge());
        return;
      }
      assembly.add(chunk);
      input.hold(assembly.capacity);
    };
    const onEnd = (): void => {
      if (!Number.isNaN(announced) && assembly.bytes !== announced) {
        refuse(wrongLength);
        return;
      }
      stop();
      input.finish();
      done({ body: assembly.take(), input });
    };
    const onClosed = (): void => {
      this.#onAborted();
      refuse(aborted);
    };
    const stopTimer = this.#expectProgress(assembly, () => refuse(tooSlow));
    const stop = (): void => {
      stopTimer();
      request.off("data", onData).off("end", onEnd).off("error", onClosed).off("close", onClosed);
      // An error without a listener would end the process.
      request.on("error", () => {});
    };
    request.on("data", onData).on("end", onEnd).on("error", onClosed).on("close", onClosed);
  }

  #expectProgress(assembly: Assembly, onSlow: () => void): () => void {
    const startedMs = this.#clock.monotonicMs();
    let cancel: () => void;
    const check = (): void => {
      const seconds = (this.#clock.monotonicMs() - startedMs) / 1000;
      if (assembly.bytes < seconds * bytesPerSecondMin) onSlow();
      else cancel = this.#clock.after(slowCheckMs, check);
    };
    cancel = this.#clock.after(slowCheckMs, check);
    return () => cancel();
  }
}

/** A body under assembly, in a buffer that grows. */
class Assembly {
  readonly #bytesMax: number;
  #buffer: Buffer = Buffer.alloc(0);
  #bytes = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  get bytes(): number {
    return this.#bytes;
  }

  get capacity(): number {
    return this.#buffer.length;
  }

  add(chunk: Buffer): void {
    const bytes = this.#bytes + chunk.length;
    if (bytes > this.#buffer.length) {
      const wanted = Math.max(this.#buffer.length * 2, firstBytes);
      const grown = Math.max(bytes, Math.min(this.#bytesMax, wanted));
      const larger = Buffer.allocUnsafeSlow(grown);
      this.#buffer.copy(larger, 0, 0, this.#bytes);
      this.#buffer = larger;
    }
    chunk.copy(this.#buffer, this.#bytes);
    this.#bytes = bytes;
  }

  take(): Buffer {
    return this.#buffer.subarray(0, this.#bytes);
  }

  drop(): void {
    this.#buffer = Buffer.alloc(0);
  }
}
