/**
 * A worker as an HTTP handler, for functions that are started on demand. A notification of the server starts it; it
 * assigns nothing: the function claims tasks under a lease, as any worker does.
 */
import type { Client } from "../client.ts";
import { CodeqError } from "../codeq-error.ts";
import type { Duration } from "../duration.ts";
import { verifyNotification } from "../subscriptions/wake-ups.ts";
import type { Handler } from "../task.ts";
import type { WorkerOptions } from "../worker/worker-options.ts";

/** How a function works. */
export interface ServeOptions extends Pick<WorkerOptions, "concurrency" | "middleware" | "on"> {
  /** The secret that the server signs notifications with, or all that may be valid. */
  readonly secret: string | readonly string[];
  /** How long the platform lets the function run. It stops early enough to hand back what it has not finished. */
  readonly maxDuration: Duration;
  /** How long to wait for another task before the function ends. Default: `"1s"`. */
  readonly idle?: Duration | undefined;
  /** Keeps the function running after its answer, where the platform can: `ctx.waitUntil`, `after` of Next. */
  readonly waitUntil?: ((work: Promise<unknown>) => void) | undefined;
}

/** A handler of the Fetch API. */
export type FetchHandler = (request: Request) => Promise<Response>;

const bodyCharsMax = 64 * 1024;

/**
 * Makes an HTTP handler that works when a notification of the server comes: it claims tasks until there are none for
 * a second, or its time is nearly over, and hands back what it has not finished without an attempt.
 *
 * ```ts
 * export const POST = serve(codeq(), [greeter], { secret: process.env.SECRET, maxDuration: "60s" });
 * ```
 */
export function serve(
  client: Client,
  handlers: Handler | readonly Handler[],
  { secret, maxDuration, idle, waitUntil, ...options }: ServeOptions,
): FetchHandler {
  return async (request) => {
    if (request.method !== "POST") return refusal(405, "a notification is a POST");
    const body = await request.text();
    if (body.length > bodyCharsMax) return refusal(413, "a notification is shorter");
    try {
      verifyNotification({ body, headers: request.headers }, { secret });
    } catch (error) {
      if (!(error instanceof CodeqError) || error.code !== "webhook_refused") throw error;
      return refusal(401, error.message);
    }
    const work = client.workUntilIdle(handlers, { ...options, maxDuration, idle });
    if (waitUntil === undefined) return Response.json(await work);
    waitUntil(work);
    return new Response(null, { status: 202 });
  };
}

function refusal(status: number, error: string): Response {
  return Response.json({ error }, { status });
}
