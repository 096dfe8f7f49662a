/** What administrators see of webhooks, and do about them. */
import { type Duration, toMs } from "../duration.ts";
import type { AskAdmin } from "./admin.ts";

/** One try to post a result. */
export interface DeliveryTry {
  /** When it began, as in RFC 3339. */
  readonly at: string;
  /** The status of the answer, if there was one. */
  readonly status?: number;
  readonly durationMs: number;
  /** Why it failed. */
  readonly error?: string;
}

/** The delivery of the webhook of a task. */
export interface Deliveries {
  readonly taskId: string;
  readonly url?: string;
  /** `none` without a webhook; `pending` before the task has ended. */
  readonly state: "none" | "pending" | "waiting" | "delivered" | "failed";
  /** Why it was given up. */
  readonly error?: string;
  readonly nextTryAt?: string;
  /** How often it was tried in all. */
  readonly total: number;
  /** The last of them, the oldest first. */
  readonly tries: readonly DeliveryTry[];
}

/** A webhook that was given up. */
export interface FailedDelivery {
  readonly taskId: string;
  readonly command: string;
  readonly url: string;
  readonly failedAt: string;
  readonly error: string;
  readonly total: number;
  readonly lastTry?: DeliveryTry;
}

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

/** What came of sending webhooks once more. */
export interface RedeliverOutcome {
  readonly matched: number;
  readonly redelivered: number;
  /** The first of those that were not, with the reason. */
  readonly failed: readonly { readonly id: string; readonly code: string }[];
  /** There may be more; ask again for the rest. */
  readonly hasMore: boolean;
}

/** An endpoint that fails or is disabled. */
export interface FailingEndpoint {
  /** Without a query. */
  readonly url: string;
  readonly disabled: boolean;
  readonly failingSince: string;
  readonly disabledAt?: string;
  readonly error: string;
}

/** A secret that signs webhooks. */
export interface WebhookSecret {
  readonly id: string;
  readonly createdAt?: string;
  readonly createdBy?: string;
  /** When it ceases to sign. */
  readonly validUntil?: string;
}

/** A new secret, with its text. */
export interface CreatedWebhookSecret extends WebhookSecret {
  /** For `verifyWebhook`; the server does not show it again. */
  readonly secret: string;
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
  readonly #ask: AskAdmin;

  /** @internal Use `client.admin.webhooks`. */
  constructor(ask: AskAdmin) {
    this.#ask = ask;
  }

  /** The delivery of the webhook of a task. */
  async deliveries(id: string): Promise<Deliveries> {
    const path = `/tasks/${encodeURIComponent(id)}/deliveries`;
    return (await this.#ask({ method: "GET", path })) as Deliveries;
  }

  /** Posts the result of a task once more, with all tries. */
  async redeliver(id: string): Promise<Deliveries> {
    const path = `/tasks/${encodeURIComponent(id)}/redeliver`;
    return (await this.#ask({ method: "POST", path })) as Deliveries;
  }

  /** Webhooks that were given up, the earliest first. */
  async *failed(
    options: { readonly since?: Date | string | undefined } = {},
  ): AsyncGenerator<FailedDelivery, void, undefined> {
    const query = new URLSearchParams();
    if (options.since !== undefined) query.set("since", instantOf(options.since));
    for (;;) {
      const answer = await this.#ask({ method: "GET", path: `/webhooks/failed?${query}` });
      const page = answer as { readonly failed: readonly FailedDelivery[]; readonly next?: string };
      yield* page.failed;
      if (page.next === undefined) return;
      query.set("after", page.next);
    }
  }

  /** Posts results once more whose webhooks were given up, a bounded number at once. */
  async redeliverFailed(options: RedeliverOptions): Promise<RedeliverOutcome> {
    const body = JSON.stringify({ ...options, since: instantOf(options.since) });
    return (await this.#ask({
      method: "POST",
      path: "/webhooks/redeliver",
      body,
    })) as RedeliverOutcome;
  }

  /** Endpoints that fail or are disabled. */
  async endpoints(): Promise<readonly FailingEndpoint[]> {
    const answer = await this.#ask({ method: "GET", path: "/webhooks/endpoints" });
    return (answer as { readonly endpoints: readonly FailingEndpoint[] }).endpoints;
  }

  /** Lets webhooks go to an endpoint again. */
  async enable(url: string): Promise<void> {
    const body = JSON.stringify({ url });
    await this.#ask({ method: "POST", path: "/webhooks/endpoints/enable", body });
  }

  /** The secrets that sign now, without their texts, the newest first. */
  async secrets(): Promise<readonly WebhookSecret[]> {
    const answer = await this.#ask({ method: "GET", path: "/webhooks/secrets" });
    return (answer as { readonly secrets: readonly WebhookSecret[] }).secrets;
  }

  /**
   * Creates a secret that signs from now on. The one before it signs as well for the time of the
   * overlap; default: 1 day.
   */
  async rotateSecret(
    options: { readonly overlap?: Duration | undefined } = {},
  ): Promise<CreatedWebhookSecret> {
    const overlapSeconds =
      options.overlap === undefined
        ? undefined
        : Math.ceil(toMs(options.overlap, "overlap") / 1000);
    const body = JSON.stringify({ overlapSeconds });
    return (await this.#ask({
      method: "POST",
      path: "/webhooks/secrets",
      body,
    })) as CreatedWebhookSecret;
  }

  /** Ends a secret at once. */
  async revokeSecret(id: string): Promise<void> {
    const path = `/webhooks/secrets/${encodeURIComponent(id)}`;
    await this.#ask({ method: "DELETE", path });
  }
}

function instantOf(moment: Date | string): string {
  return moment instanceof Date ? moment.toISOString() : moment;
}
