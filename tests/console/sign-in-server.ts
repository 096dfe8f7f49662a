/**
 * A real identity server at which people sign in: a certified OpenID provider with one person and a page
 * with one button. It is on another site (localhost) than the console (127.0.0.1), as identity servers are.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { TestContext } from "node:test";
import Provider, { type AuthorizationContext } from "oidc-provider";
import { makeKey } from "../contract/identity-server.ts";

const person = "ana";

export class SignInServer {
  readonly issuer: string;
  readonly clientSecret = "a long secret of the console";
  /** What access tokens say of the person. */
  claims: Readonly<Record<string, unknown>> = { tenantId: "acme", role: "admin" };
  #provider: Provider | undefined;

  constructor(issuer: string) {
    this.issuer = issuer;
  }

  /** From here on the console may send people, and gets them back at this address. */
  allow(redirectUri: string): void {
    this.#provider = new Provider(this.issuer, {
      jwks: { keys: [{ ...makeKey("RS256"), kid: "first", alg: "RS256" }] },
      cookies: { keys: ["a secret of the cookies"] },
      clients: [
        {
          client_id: "console",
          client_secret: this.clientSecret,
          redirect_uris: [redirectUri],
          response_types: ["code"],
          grant_types: ["authorization_code"],
        },
      ],
      findAccount: (_context: unknown, id: string) => ({
        accountId: id,
        claims: () => ({ sub: id }),
      }),
      interactions: { url: (_context: unknown, { uid }: { uid: string }) => `/sign-in/${uid}` },
      loadExistingGrant: (context: AuthorizationContext) => this.#consent(context),
      extraTokenClaims: () => this.claims,
      features: {
        devInteractions: { enabled: false },
        resourceIndicators: {
          enabled: true,
          getResourceServerInfo: () => ({
            scope: "",
            audience: "codeq",
            accessTokenFormat: "jwt",
            accessTokenTTL: 3600,
            jwt: { sign: { alg: "RS256" } },
          }),
        },
      },
    });
  }

  /** Where the person is sent back to, as a browser finds out. */
  async answer(url: string): Promise<string> {
    const cookies = new Map<string, string>();
    for (let at = url; ; ) {
      const isPage = new URL(at).pathname.startsWith("/sign-in/");
      const reply = await fetch(at, {
        method: isPage ? "POST" : "GET",
        redirect: "manual",
        headers: { cookie: [...cookies].map(([name, value]) => `${name}=${value}`).join("; ") },
      });
      for (const each of reply.headers.getSetCookie()) {
        const [, name = "", value = ""] = /^([^=]+)=([^;]*)/.exec(each) ?? [];
        cookies.set(name, value);
      }
      const to = new URL(reply.headers.get("location") ?? "", at);
      if (to.origin !== this.issuer) return to.href;
      at = to.href;
    }
  }

  async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const provider = this.#provider;
    if (provider === undefined) return void response.writeHead(503).end();
    if (request.url === "/favicon.ico") return void response.writeHead(204).end();
    if (!request.url?.startsWith("/sign-in/")) return provider.callback()(request, response);
    if (request.method === "POST") {
      await provider.interactionFinished(request, response, { login: { accountId: person } });
      return;
    }
    const page = `<!doctype html><title>Sign in</title><form method="post"><button>Continue as ${person}</button></form>`;
    response.writeHead(200, { "content-type": "text/html" }).end(page);
  }

  async #consent({ oidc }: AuthorizationContext): Promise<object> {
    const { client, session, provider } = oidc;
    const grant = new provider.Grant({
      clientId: client.clientId,
      accountId: session.accountId,
    });
    grant.addOIDCScope("openid");
    await grant.save();
    return grant;
  }
}

export async function startSignInServer(t: TestContext): Promise<SignInServer> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const identity = new SignInServer(`http://localhost:${port}`);
  server.on("request", (request, response) => void identity.handle(request, response));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return identity;
}
