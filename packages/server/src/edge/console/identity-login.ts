/**
 * Signing in to the console at an identity server: OpenID Connect with an authorization code and PKCE. What
 * has to be known when the browser comes back is in a sealed cookie of the browser, so nothing is stored and
 * any server with the same secret can finish what another has begun.
 *
 *   begun      the browser has the cookie and is sent to the identity server
 *   finished   the browser came back with a code and the state of its cookie; the code was exchanged for
 *              tokens, of which the ID token has the nonce of the cookie
 *
 * A sign-in that was begun elsewhere, took too long, or whose answer comes from another issuer is refused
 * before any token is asked for.
 */
import { hash } from "node:crypto";
import type { Clock } from "../../core/clock.ts";
import type { RandomBytes } from "../../core/task-ids.ts";
import type { RequestText, TextReply, TextRequest } from "../access/request-text.ts";
import { drawText, Seal } from "../access/seal.ts";
import { isSameText, type TokenProvider } from "../access/token-provider.ts";

export interface LoginConfig {
  readonly issuer: string;
  readonly clientId: string;
  /** Empty for a client without a secret. */
  readonly clientSecret: string;
  readonly scopes: string;
  /** What the access token is for (RFC 8707); empty to leave it out. */
  readonly resource: string;
  readonly httpTimeoutMs: number;
}

/** Shown to people; the reason is for the log. */
export type LoginProblem = "expired" | "refused" | "issuer" | "unreachable" | "token";

export interface LoginFailure {
  readonly ok: false;
  readonly problem: LoginProblem;
  readonly reason: string;
}

export interface BegunLogin {
  readonly ok: true;
  /** The URL of the identity server. */
  readonly url: string;
  readonly cookie: string;
}

export interface FinishedLogin {
  readonly ok: true;
  readonly accessToken: string;
  /** Whom the ID token names; the access token has to name the same. */
  readonly subject: string;
  /** Where the browser wanted to go. */
  readonly to: string;
}

export interface LoginParts {
  /** The same on all servers behind one name. */
  readonly secret: string;
  readonly clock: Clock;
  readonly randomBytes: RandomBytes;
  readonly requestText: RequestText;
  /** Verifies ID tokens, which are for the client and not for the API. */
  readonly idTokens: TokenProvider;
}

/** Between the two requests of the browser: long enough for a password and a second factor. */
export const loginMs: number = 10 * 60 * 1000;
const metadataMs = 5 * 60 * 1000;
/** Codes that are exchanged at the same time. */
const exchangesMax = 16;

interface Begun {
  readonly state: string;
  readonly nonce: string;
  readonly verifier: string;
  readonly redirectUri: string;
  readonly to: string;
  readonly expiresMs: number;
}

interface Metadata {
  readonly authorizationUrl: string;
  readonly tokenUrl: string;
  /** Answers always name their issuer (RFC 9207). */
  readonly namesIssuer: boolean;
}

export class IdentityLogin {
  readonly #config: LoginConfig;
  readonly #parts: LoginParts;
  readonly #seal: Seal;
  #metadata: { readonly value: Metadata; readonly untilMs: number } | undefined;
  #finding: Promise<FoundMetadata> | undefined;
  #exchanges = 0;

  constructor(config: LoginConfig, parts: LoginParts) {
    this.#config = config;
    this.#parts = parts;
    this.#seal = new Seal({ ...parts, purpose: "login" });
  }

  /** For people: at which identity server they sign in. */
  get host(): string {
    return new URL(this.#config.issuer).host;
  }

  async begin(wanted: {
    readonly redirectUri: string;
    readonly to: string;
  }): Promise<BegunLogin | LoginFailure> {
    const metadata = await this.#findMetadata();
    if (!metadata.ok) return metadata;
    const { clock, randomBytes } = this.#parts;
    const begun: Begun = {
      ...wanted,
      state: drawText(randomBytes, 24),
      nonce: drawText(randomBytes, 24),
      verifier: drawText(randomBytes, 32),
      expiresMs: clock.nowMs() + loginMs,
    };
    const { clientId, scopes, resource } = this.#config;
    const url = new URL(metadata.value.authorizationUrl);
    const query = {
      response_type: "code",
      client_id: clientId,
      redirect_uri: begun.redirectUri,
      scope: scopes,
      state: begun.state,
      nonce: begun.nonce,
      code_challenge: hash("sha256", begun.verifier, "base64url"),
      code_challenge_method: "S256",
      ...(resource === "" ? {} : { resource }),
    };
    for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
    return { ok: true, url: url.href, cookie: this.#seal.close(JSON.stringify(begun)) };
  }

  /** The query is what the identity server sent the browser back with. */
  async finish(
    cookie: string,
    query: Readonly<Record<string, string | undefined>>,
  ): Promise<FinishedLogin | LoginFailure> {
    const text = this.#seal.open(cookie);
    if (text === undefined) return failure("expired", "the browser has not begun this sign-in");
    const begun = JSON.parse(text) as Begun;
    if (!isSameText(begun.state, query["state"] ?? "")) {
      return failure("expired", "the state is not the one of this browser");
    }
    if (begun.expiresMs <= this.#parts.clock.nowMs()) {
      return failure("expired", "the sign-in was begun too long ago");
    }
    const metadata = await this.#findMetadata();
    if (!metadata.ok) return metadata;
    const { iss, code, error } = query;
    const { issuer } = this.#config;
    if (iss === undefined ? metadata.value.namesIssuer : iss !== issuer) {
      return failure(
        "issuer",
        `the answer is from ${iss ?? "an unnamed issuer"}, not from ${issuer}`,
      );
    }
    if (code === undefined) {
      const why = query["error_description"] ?? "";
      return failure("refused", `the identity server answered ${error ?? "without a code"} ${why}`);
    }
    const tokens = await this.#exchange(metadata.value.tokenUrl, code, begun);
    return tokens.ok ? this.#check(tokens, begun) : tokens;
  }

  async #check(tokens: Tokens, { nonce, to }: Begun): Promise<FinishedLogin | LoginFailure> {
    const { accessToken, idToken } = tokens;
    const verified = await this.#parts.idTokens.verify(idToken);
    if (!verified.ok) return failure("token", `the ID token is refused: ${verified.code}`);
    const { subject, raw } = verified.value;
    const { azp = this.#config.clientId } = raw;
    if (azp !== this.#config.clientId)
      return failure("token", "the ID token is for another client");
    if (typeof raw["nonce"] !== "string" || !isSameText(raw["nonce"], nonce)) {
      return failure("token", "the nonce of the ID token is not the one of this sign-in");
    }
    return { ok: true, accessToken, subject, to };
  }

  async #exchange(url: string, code: string, begun: Begun): Promise<Tokens | LoginFailure> {
    if (this.#exchanges >= exchangesMax) return failure("unreachable", "too many sign-ins at once");
    const { clientId, clientSecret, resource } = this.#config;
    const form = new URLSearchParams({
      grant_type: "authorization_code",
      code,
      redirect_uri: begun.redirectUri,
      client_id: clientId,
      code_verifier: begun.verifier,
      ...(resource === "" ? {} : { resource }),
    });
    this.#exchanges += 1;
    try {
      const headers = clientSecret === "" ? {} : { authorization: basic(clientId, clientSecret) };
      const { status, text } = await this.#ask({ url, form, headers });
      return status === 200
        ? tokensIn(text)
        : failure("refused", `${status} ${text.slice(0, 500)}`);
    } catch (error) {
      return failure("unreachable", (error as Error).message);
    } finally {
      this.#exchanges -= 1;
    }
  }

  /** Every client can begin a sign-in, so all sign-ins share one request. */
  #findMetadata(): Promise<FoundMetadata> {
    const known = this.#metadata;
    if (known !== undefined && this.#parts.clock.monotonicMs() < known.untilMs) {
      return Promise.resolve({ ok: true, value: known.value });
    }
    this.#finding ??= this.#askMetadata().finally(() => {
      this.#finding = undefined;
    });
    return this.#finding;
  }

  async #askMetadata(): Promise<FoundMetadata> {
    const nowMs = this.#parts.clock.monotonicMs();
    const { issuer } = this.#config;
    const url = `${issuer.replace(/\/$/, "")}/.well-known/openid-configuration`;
    try {
      const { status, text } = await this.#ask({ url });
      if (status !== 200) return failure("unreachable", `${url} answers with ${status}`);
      const found = metadataIn(text, issuer);
      if (found.ok) this.#metadata = { value: found.value, untilMs: nowMs + metadataMs };
      return found;
    } catch (error) {
      return failure("unreachable", `${url}: ${(error as Error).message}`);
    }
  }

  async #ask(request: TextRequest): Promise<TextReply> {
    const { httpTimeoutMs } = this.#config;
    const controller = new AbortController();
    const cancel = this.#parts.clock.after(httpTimeoutMs, () =>
      controller.abort(new Error(`no answer within ${httpTimeoutMs} ms`)),
    );
    try {
      return await this.#parts.requestText(request, controller.signal);
    } finally {
      cancel();
    }
  }
}

type FoundMetadata = { readonly ok: true; readonly value: Metadata } | LoginFailure;

interface Tokens {
  readonly ok: true;
  readonly accessToken: string;
  readonly idToken: string;
}

function tokensIn(text: string): Tokens | LoginFailure {
  const { access_token: accessToken, id_token: idToken } = fieldsOf(text);
  if (typeof accessToken === "string" && typeof idToken === "string") {
    return { ok: true, accessToken, idToken };
  }
  return failure("token", "the identity server gave no access token, or no ID token");
}

function metadataIn(
  text: string,
  issuer: string,
): { readonly ok: true; readonly value: Metadata } | LoginFailure {
  const fields = fieldsOf(text);
  const authorizationUrl = String(fields["authorization_endpoint"]);
  const tokenUrl = String(fields["token_endpoint"]);
  if (fields["issuer"] !== issuer) {
    return failure("issuer", `the identity server calls itself ${fields["issuer"]}, not ${issuer}`);
  }
  // Without TLS, anyone on the network could read the code or the secret.
  const schemes = issuer.startsWith("https:") ? /^https:/ : /^https?:/;
  if (![authorizationUrl, tokenUrl].every((url) => URL.canParse(url) && schemes.test(url))) {
    return failure("issuer", "the endpoints of the identity server are missing or not encrypted");
  }
  const namesIssuer = fields["authorization_response_iss_parameter_supported"] === true;
  return { ok: true, value: { authorizationUrl, tokenUrl, namesIssuer } };
}

function fieldsOf(text: string): Readonly<Record<string, unknown>> {
  try {
    return (JSON.parse(text) ?? {}) as Record<string, unknown>;
  } catch {
    // Whatever answered has none of the fields that are looked for.
    return {};
  }
}

/** As RFC 6749 wants it: both parts are encoded like a form before they are joined. */
function basic(id: string, secret: string): string {
  const encode = (text: string): string => new URLSearchParams({ "": text }).toString().slice(1);
  return `Basic ${Buffer.from(`${encode(id)}:${encode(secret)}`).toString("base64")}`;
}

function failure(problem: LoginProblem, reason: string): LoginFailure {
  return { ok: false, problem, reason };
}
