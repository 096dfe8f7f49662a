/**
 * The messages between a front and the main thread. All messages of an event loop turn travel together, in
 * order. The front numbers calls and connections, each with its own numbers.
 */
import type { Ends } from "../connections.ts";

/** Said by a front. */
export const said = {
  /** A whole plain request. */
  call: 1,
  /** Nobody waits for the answer of a call any more. */
  left: 2,
  /** A connection on which something came that is no plain request; the main thread serves it. */
  opened: 3,
  data: 4,
  /** The other end sends nothing more. */
  ended: 5,
  closed: 6,
  /** Nothing was sent or received for as long as the main thread wanted to know. */
  timedOut: 7,
  /** The system has taken over what was to be sent. */
  took: 8,
} as const;

/** Told by the main thread. */
export const told = {
  reply: 1,
  data: 2,
  end: 3,
  destroy: 4,
  /** Say when nothing was sent or received for so long; 0 for never. */
  watch: 5,
  pause: 6,
  resume: 7,
  /** Somebody known waits for something on the connection; or not any more. */
  held: 8,
} as const;

export type FrontWord =
  | readonly [word: typeof said.call, call: number, request: SentCall]
  | readonly [word: typeof said.left, call: number]
  | readonly [word: typeof said.opened, connection: number, ends: Ends]
  | readonly [word: typeof said.data, connection: number, bytes: Uint8Array]
  | readonly [
      word: typeof said.ended | typeof said.closed | typeof said.timedOut | typeof said.took,
      connection: number,
    ];

/** The bytes of the body are letters of Latin-1: a string is copied faster than a buffer of its own. */
export type SentCall = readonly [
  path: string,
  body: string,
  address: string,
  authorization: string | undefined,
  role: string | undefined,
  requestId: string | undefined,
  traceParent: string | undefined,
  traceState: string | undefined,
];

export type DeskWord =
  | readonly [word: typeof told.reply, call: number, head: string, text: string]
  | readonly [word: typeof told.data, connection: number, bytes: Uint8Array]
  | readonly [word: typeof told.watch, connection: number, ms: number]
  | readonly [word: typeof told.held, connection: number, isHeld: boolean]
  | readonly [
      word: typeof told.end | typeof told.destroy | typeof told.pause | typeof told.resume,
      connection: number,
    ];

/** Gathers what one side has to say in a turn. */
export class Outbox<Word> {
  readonly #send: (words: readonly Word[]) => void;
  readonly #defer: (run: () => void) => void;
  #words: Word[] = [];

  constructor(parts: {
    readonly send: (words: readonly Word[]) => void;
    readonly defer: (run: () => void) => void;
  }) {
    this.#send = parts.send;
    this.#defer = parts.defer;
  }

  readonly say = (word: Word): void => {
    this.#words.push(word);
    if (this.#words.length === 1) this.#defer(this.#flush);
  };

  readonly #flush = (): void => {
    const words = this.#words;
    this.#words = [];
    this.#send(words);
  };
}
