/** Reads server-sent events from the pieces of an answer. */
import { ForeignAnswerError } from "./foreign-answer-error.ts";

export interface ServerSentEvent {
  /** Empty for a sign of life. */
  readonly name: string;
  readonly value: unknown;
}

/** Several times what a server holds for a reader. */
const eventCharsMax = 1024 * 1024;

export class EventReader {
  #rest = "";

  /** The events that end in this piece. */
  *read(piece: string): Generator<ServerSentEvent> {
    const blocks = (this.#rest + piece).split("\n\n");
    this.#rest = blocks.pop() ?? "";
    for (const block of blocks) yield eventOf(block);
    if (this.#rest.length > eventCharsMax) {
      throw new ForeignAnswerError(`an event has more than ${eventCharsMax} characters`);
    }
  }
}

function eventOf(block: string): ServerSentEvent {
  const name = /^event: (.*)$/m.exec(block)?.[1];
  const data = /^data: (.*)$/m.exec(block)?.[1];
  if (name === undefined || data === undefined) return { name: "", value: undefined };
  try {
    return { name, value: JSON.parse(data) };
  } catch (cause) {
    throw new ForeignAnswerError("an event is not JSON", { cause });
  }
}
