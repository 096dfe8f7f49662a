/** Acknowledgements of batches, in messages that are not too large for any client. */

/** Longer ones are no ids; what is repeated of them is enough to see that. */
const echoedIdCharsMax = 256;
/** Clients refuse more than 4 MiB; the rest is for what is around the acknowledgements. */
const batchBytesMax = 4 * 1024 * 1024 - 1024;
/** More than an acknowledgement needs besides its texts. */
const fieldsBytes = 32;
/** A batch of so many is far from too large, whatever is in it, and need not be measured. */
const unmeasuredMax = 1024;

interface Ack {
  readonly taskId: string;
  readonly errorMessage: string;
}

/** The id of a task as it is repeated to the client. */
export function echoOf(taskId: string): string {
  return taskId.length <= echoedIdCharsMax ? taskId : taskId.slice(0, echoedIdCharsMax);
}

/** In their order: nearly always all of them in one message. */
export function inMessages<A extends Ack>(acks: A[]): A[][] {
  if (acks.length <= unmeasuredMax) return [acks];
  const messages: A[][] = [[]];
  let bytes = 0;
  for (const ack of acks) {
    const size = fieldsBytes + Buffer.byteLength(ack.taskId) + Buffer.byteLength(ack.errorMessage);
    bytes += size;
    if (bytes > batchBytesMax) {
      messages.push([]);
      bytes = size;
    }
    messages.at(-1)?.push(ack);
  }
  return messages;
}
