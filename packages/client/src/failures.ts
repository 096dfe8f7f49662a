/** Errors with which a handler decides how its task ends. After any other error the server retries the task. */
import { type Duration, toMs } from "./duration.ts";

/**
 * Trying again would not help: the task fails at once, and `run.result()` rejects with this message.
 *
 * ```ts
 * if (!isImage(bytes)) throw new Permanent("the file is not an image");
 * ```
 */
export class Permanent extends Error {
  override readonly name: string = "Permanent";
}

/**
 * Try again after this time, in whole seconds (fractions are rounded up; the server has a longest
 * delay). It counts as an attempt.
 *
 * ```ts
 * if (reply.status === 429) throw new RetryIn("2m", "the rate limit of the image host");
 * ```
 */
export class RetryIn extends Error {
  override readonly name: string = "RetryIn";
  /** The pause that was asked for. */
  readonly delayMs: number;

  constructor(delay: Duration, reason: string = "", options?: ErrorOptions) {
    super(reason === "" ? `try again in ${delay}` : reason, options);
    this.delayMs = toMs(delay, "delay of RetryIn");
  }
}
