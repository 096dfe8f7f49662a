/**
 * A real identity server on the loopback: a certified OpenID provider that gives tokens to clients
 * which know their secret. Its keys can be rotated and removed, and it can be down for a while.
 */
import { generateKeyPairSync } from "node:crypto";
import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { TestContext } from "node:test";
import Provider from "oidc-provider";

export const algorithms = ["RS256", "RS384", "RS512", "ES256", "EdDSA"] as const;
export type SigningAlgorithm = (typeof algorithms)[number];

/** A client and what its tokens say of it. */
export interface IdentityClient {
  readonly id: string;
  readonly claims: Readonly<Record<string, unknown>>;
}

interface PrivateKey {
  readonly kid: string;
  readonly alg: SigningAlgorithm;
}

const secretOf = (client: string) => `the long secret of ${client}`;
const host = "127.0.0.1";
const scopes = ["create", "claim", "heartbeat", "abandon", "nack", "result", "admin"].map(
  (verb) => `codeq:${verb}`,
);

export class IdentityServer {
  readonly #clients: readonly IdentityClient[];
  readonly #keys: PrivateKey[] = [];
  #answer: RequestListener = () => {};
  #server: Server | undefined;
  #port = 0;

  constructor(clients: readonly IdentityClient[]) {
    this.#clients = clients;
  }

  get issuer(): string {
    return `http://${host}:${this.#port}`;
  }

  get jwksUrl(): string {
    return `${this.issuer}/jwks`;
  }

  /** On the same port as before, if there was one. */
  async start(): Promise<void> {
    const server = createServer((request, response) => this.#answer(request, response));
    await new Promise<void>((resolve) => server.listen(this.#port, host, resolve));
    this.#server = server;
    this.#port = (server.address() as AddressInfo).port;
  }

  async stop(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    if (server === undefined) return;
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }

  /** Publishes one more key, which signs from now on. */
  addKey(kid: string, alg: SigningAlgorithm = "RS256"): void {
    this.#keys.push({ ...makeKey(alg), kid, alg });
    this.#configure();
  }

  removeKey(kid: string): void {
    const index = this.#keys.findIndex((key) => key.kid === kid);
    this.#keys.splice(index, 1);
    this.#configure();
  }

  /** A token for a client, got as a client gets it. */
  async token(client: string, audience: string, scope = ""): Promise<string> {
    const secret = Buffer.from(`${client}:${encodeURIComponent(secretOf(client))}`);
    const reply = await fetch(`${this.issuer}/token`, {
      method: "POST",
      headers: { authorization: `Basic ${secret.toString("base64")}` },
      body: new URLSearchParams({
        grant_type: "client_credentials",
        resource: `urn:${audience}`,
        ...(scope === "" ? {} : { scope }),
      }),
    });
    const body = (await reply.json()) as { access_token?: string };
    if (body.access_token === undefined) throw new Error(JSON.stringify(body));
    return body.access_token;
  }

  /** The library reads its keys once, so a change of them is a new provider behind the same port. */
  #configure(): void {
    const signing = this.#keys.at(-1);
    const provider = new Provider(this.issuer, {
      adapter: Nothing,
      jwks: { keys: this.#keys },
      clients: this.#clients.map(({ id }) => ({
        client_id: id,
        client_secret: secretOf(id),
        grant_types: ["client_credentials"],
        redirect_uris: [],
        response_types: [],
        id_token_signed_response_alg: signing?.alg,
      })),
      enabledJWA: { idTokenSigningAlgValues: algorithms },
      ttl: { ClientCredentials: 3600 },
      scopes,
      features: {
        clientCredentials: { enabled: true },
        devInteractions: { enabled: false },
        resourceIndicators: {
          enabled: true,
          getResourceServerInfo: (_context: unknown, resource: string) => ({
            scope: scopes.join(" "),
            audience: resource.replace("urn:", ""),
            accessTokenFormat: "jwt",
            accessTokenTTL: 3600,
            jwt: { sign: { alg: signing?.alg, kid: signing?.kid } },
          }),
        },
      },
      extraTokenClaims: (_context: unknown, token: { clientId: string }) =>
        this.#clients.find(({ id }) => id === token.clientId)?.claims,
    });
    this.#answer = provider.callback();
  }
}

/** Signed tokens need no memory. */
class Nothing {
  async upsert(): Promise<void> {}
  async find(): Promise<undefined> {
    return undefined;
  }
  async destroy(): Promise<void> {}
}

export function makeKey(alg: SigningAlgorithm): object {
  const { privateKey } =
    alg === "EdDSA"
      ? generateKeyPairSync("ed25519")
      : alg === "ES256"
        ? generateKeyPairSync("ec", { namedCurve: "P-256" })
        : generateKeyPairSync("rsa", { modulusLength: 2048 });
  return { ...privateKey.export({ format: "jwk" }), use: "sig" };
}

/** An identity server of its own for one test, with one key. */
export async function startIdentityServer(
  t: TestContext,
  clients: readonly IdentityClient[],
): Promise<IdentityServer> {
  const server = new IdentityServer(clients);
  await server.start();
  t.after(() => server.stop());
  server.addKey("first");
  return server;
}
