/**
 * What one call may ask of the server with what it sends. A turn of the event loop has a share for
 * each call, so that one with many messages does not hold up the others; and a call must not come in
 * thousands of pieces, each of which costs as much as a message.
 */
import type { SendTurn } from "@codeq/protocol/wire";

/** Of one call; more wait for the next turn of the event loop. */
const messagesPerTurnMax = 512;
/** No message fits into less. Who sends thousands of such frames wants to keep the server busy. */
const pieceBytesMax = 6;
const piecesMax = 1000;

export class InputShare {
  readonly #turn: SendTurn;
  /** Messages handed over in the turn with this number. */
  #number = 0;
  #messages = 0;
  /** How many more pieces than larger chunks have come. */
  #pieces = 0;

  constructor(turn: SendTurn) {
    this.#turn = turn;
  }

  /** A message was handed over; false when the next one has to wait for the next turn. */
  countMessage(): boolean {
    if (this.#number !== this.#turn.number) {
      this.#number = this.#turn.number;
      this.#messages = 0;
      this.#turn.begin();
    }
    this.#messages += 1;
    return this.#messages < messagesPerTurnMax;
  }

  /** A chunk has come; false when it is the piece that is one too many. */
  countChunk(bytes: number): boolean {
    this.#pieces = Math.max(0, this.#pieces + (bytes <= pieceBytesMax ? 1 : -1));
    return this.#pieces <= piecesMax;
  }
}
