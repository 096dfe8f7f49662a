/** API keys of the administrator's tenant. */
import { type AskApi, call, pages } from "../api-calls.ts";
import type { ApiKey, ApiKeyOptions, CreatedApiKey } from "../api-types.ts";

/**
 * API keys of the administrator's tenant.
 *
 * ```ts
 * const { token } = await client.admin.keys.create({ name: "shop", scopes: ["codeq:create"] });
 * ```
 */
export class AdminKeys {
  readonly #ask: AskApi;

  /** @internal Use `client.admin.keys`. */
  constructor(ask: AskApi) {
    this.#ask = ask;
  }

  /** Creates a key; its `token` is in this answer only. */
  create(options: ApiKeyOptions): Promise<CreatedApiKey> {
    return call(this.#ask, "POST /admin/keys", { body: options });
  }

  /** All keys without their tokens, the oldest first. */
  list(): AsyncGenerator<ApiKey, void, undefined> {
    return pages(this.#ask, "GET /admin/keys");
  }

  /**
   * Creates a key with the name, the permissions and the lifetime of another key. The other key stays valid until it
   * is revoked, so that clients can change to the new one first.
   */
  rotate(id: string): Promise<CreatedApiKey> {
    return rotateKey(this.#ask, id);
  }

  /** From now on the server refuses the key. */
  async revoke(id: string): Promise<void> {
    await call(this.#ask, "DELETE /admin/keys/:id", { params: { id } });
  }
}

export async function rotateKey(ask: AskApi, id: string): Promise<CreatedApiKey> {
  const old = await call(ask, "GET /admin/keys/:id", { params: { id } });
  const { name, role, scopes, eventTypes, createdAt, expiresAt } = old;
  const expiresInSeconds =
    expiresAt === undefined
      ? undefined
      : Math.ceil((Date.parse(expiresAt) - Date.parse(createdAt)) / 1000);
  const body = { name, role, scopes, eventTypes, expiresInSeconds };
  return call(ask, "POST /admin/keys", { body });
}
