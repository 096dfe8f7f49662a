/**
 * An identity server without a server: it has keys, publishes a key set and signs tokens. Written
 * with nothing but the crypto of Node, so that it and what it tests are not the same code. Tokens can
 * be made as wrong as a test needs them.
 */
import { generateKeyPairSync, type KeyObject, sign } from "node:crypto";

export type SimAlgorithm = "RS256" | "RS384" | "RS512" | "ES256" | "EdDSA";

interface IssuerKey {
  readonly kid: string;
  readonly algorithm: SimAlgorithm;
  readonly privateKey: KeyObject;
  readonly jwk: Readonly<Record<string, unknown>>;
}

export interface TokenOptions {
  /** Default: the newest key. */
  readonly kid?: string;
  /** Overrides of the protected header; undefined leaves a field out. */
  readonly header?: Readonly<Record<string, unknown>>;
}

export class SimIssuer {
  readonly issuer: string;
  /** What else the key set holds, such as junk. */
  readonly extraEntries: unknown[] = [];
  readonly #keys: Map<string, IssuerKey> = new Map();

  constructor(issuer = "https://id.example.com") {
    this.issuer = issuer;
  }

  addKey(kid: string, algorithm: SimAlgorithm = "EdDSA"): this {
    const { publicKey, privateKey } = makePair(algorithm);
    const jwk = { ...publicKey.export({ format: "jwk" }), kid, alg: algorithm, use: "sig" };
    this.#keys.set(kid, { kid, algorithm, privateKey, jwk });
    return this;
  }

  removeKey(kid: string): this {
    this.#keys.delete(kid);
    return this;
  }

  jwkOf(kid: string): Readonly<Record<string, unknown>> {
    return this.#key(kid).jwk;
  }

  /** The text that the endpoint answers with. */
  keySet(): string {
    const keys = [...this.extraEntries, ...[...this.#keys.values()].map(({ jwk }) => jwk)];
    return JSON.stringify({ keys });
  }

  /** A token with exactly these claims; `iss` is the issuer's unless it is given. */
  token(claims: Readonly<Record<string, unknown>>, options: TokenOptions = {}): string {
    const key = this.#key(options.kid);
    const header = { alg: key.algorithm, kid: key.kid, typ: "JWT", ...options.header };
    const signed = `${encode(header)}.${encode({ iss: this.issuer, ...claims })}`;
    const signature = signWith(key, Buffer.from(signed));
    return `${signed}.${signature.toString("base64url")}`;
  }

  #key(kid: string | undefined): IssuerKey {
    const key = kid === undefined ? [...this.#keys.values()].at(-1) : this.#keys.get(kid);
    if (key === undefined) throw new Error(`the issuer has no key ${kid ?? "at all"}`);
    return key;
  }
}

const modulusLength = 2048;

function makePair(algorithm: SimAlgorithm): { publicKey: KeyObject; privateKey: KeyObject } {
  if (algorithm === "EdDSA") return generateKeyPairSync("ed25519");
  if (algorithm === "ES256") return generateKeyPairSync("ec", { namedCurve: "P-256" });
  return generateKeyPairSync("rsa", { modulusLength });
}

function signWith({ algorithm, privateKey: key }: IssuerKey, bytes: Buffer): Buffer {
  if (algorithm === "EdDSA") return sign(null, bytes, key);
  const hash = `sha${algorithm.slice(2)}`;
  return sign(hash, bytes, algorithm === "ES256" ? { key, dsaEncoding: "ieee-p1363" } : key);
}

function encode(value: unknown): string {
  return Buffer.from(JSON.stringify(value)).toString("base64url");
}
