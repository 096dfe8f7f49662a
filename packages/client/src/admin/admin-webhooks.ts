/** What administrators see of webhooks, and do about them. */
import { type AskApi, call, pages } from "../api-calls.ts";
import type {
  CreatedWebhookSecret,
  Deliveries,
  FailedDelivery,
  FailingEndpoint,
  RedeliverOutcome,
  WebhookSecret,
} from "../api-types.ts";
import { type Duration, toMs } from "../duration.ts";

/** Which webhooks to send once more. */
export interface RedeliverOptions {
  /** Only webhooks given up at or after this time. */
  readonly since: Date | string;
  /** Only those whose URL begins like this. */
  readonly url?: string | undefined;
  /** At most 10,000; default: 1,000. */
  readonly limit?: number | undefined;
  /** Count them, and send nothing. */
  readonly dryRun?: boolean | undefined;
}

/**
 * Webhooks of the administrator's tenant.
 *
 * ```ts
 * const { state, tries } = await client.admin.webhooks.deliveries(id);
 * await client.admin.webhooks.redeliverFailed({ since: "2026-01-02T03:00:00Z" });
 * ```
 */
export class AdminWebhooks {
  readonly #ask: AskApi;

  /** @internal Use `client.admin.webhooks`. */
  constructor(ask: AskApi) {
    this.#ask = ask;
  }

  /** The delivery of the webhook of a task. */
  deliveries(id: string): Promise<Deliveries> {
    return call(this.#ask, "GET /admin/tasks/:id/deliveries", { params: { id } });
  }

  /** Posts the result of a task once more, with all tries. */
  redeliver(id: string): Promise<Deliveries> {
    return call(this.#ask, "POST /admin/tasks/:id/redeliver", { params: { id } });
  }

  /** Webhooks that were given up, the earliest first. */
  failed(
    options: { readonly since?: Date | string | undefined } = {},
  ): AsyncGenerator<FailedDelivery, void, undefined> {
    const { since } = options;
    const query = { since: since === undefined ? undefined : instantOf(since) };
    return pages(this.#ask, "GET /admin/webhooks/failed", query);
  }

  /** Posts results once more whose webhooks were given up, a bounded number at once. */
  redeliverFailed(options: RedeliverOptions): Promise<RedeliverOutcome> {
    const body = { ...options, since: instantOf(options.since) };
    return call(this.#ask, "POST /admin/webhooks/redeliver", { body });
  }

  /** Endpoints that fail or are disabled. */
  async endpoints(): Promise<readonly FailingEndpoint[]> {
    return (await call(this.#ask, "GET /admin/webhooks/endpoints")).endpoints;
  }

  /** Lets webhooks go to an endpoint again. */
  async enable(url: string): Promise<void> {
    await call(this.#ask, "POST /admin/webhooks/endpoints/enable", { body: { url } });
  }

  /** The secrets that sign now, without their texts, the newest first. */
  async secrets(): Promise<readonly WebhookSecret[]> {
    return (await call(this.#ask, "GET /admin/webhooks/secrets")).secrets;
  }

  /**
   * Creates a secret that signs from now on. The one before it signs as well for the time of the
   * overlap; default: 1 day.
   */
  async rotateSecret(
    options: { readonly overlap?: Duration | undefined } = {},
  ): Promise<CreatedWebhookSecret> {
    const { overlap } = options;
    const overlapSeconds =
      overlap === undefined ? undefined : Math.ceil(toMs(overlap, "overlap") / 1000);
    return call(this.#ask, "POST /admin/webhooks/secrets", { body: { overlapSeconds } });
  }

  /** Ends a secret at once. */
  async revokeSecret(id: string): Promise<void> {
    await call(this.#ask, "DELETE /admin/webhooks/secrets/:id", { params: { id } });
  }
}

function instantOf(moment: Date | string): string {
  return moment instanceof Date ? moment.toISOString() : moment;
}
