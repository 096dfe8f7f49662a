/**
 * The public keys of a key set. Entries that cannot be used (another purpose, another key type, no name,
 * invalid) are skipped, because identity servers publish keys for several readers.
 */
import { type CryptoKey, importJWK, type JWK } from "jose";
import { isRecord } from "../../config/blobs.ts";

export const algorithms = ["RS256", "RS384", "RS512", "ES256", "EdDSA"] as const;
export type Algorithm = (typeof algorithms)[number];

export interface SigningKey {
  readonly kid: string;
  /** Equal for the same key in every fetch. */
  readonly material: string;
  /** The key for each algorithm that it may be used with. */
  readonly byAlgorithm: ReadonlyMap<string, CryptoKey>;
  /** Whether the key set no longer has the key; tokens that it signed are then refused. */
  readonly isGone: () => boolean;
  readonly drop: () => void;
}

const keysMax = 100;
const kidCharsMax = 256;

/** Undefined if the text is not a key set. */
export async function readSigningKeys(text: string): Promise<readonly SigningKey[] | undefined> {
  const entries = entriesOf(text);
  if (entries === undefined) return undefined;
  const keys: SigningKey[] = [];
  for (const entry of entries.slice(0, keysMax)) {
    const key = isRecord(entry) ? await readKey(entry) : undefined;
    if (key !== undefined) keys.push(key);
  }
  return keys;
}

function entriesOf(text: string): readonly unknown[] | undefined {
  try {
    const { keys } = JSON.parse(text) ?? {};
    return Array.isArray(keys) ? keys : undefined;
  } catch {
    // Not JSON: the answer comes from another server, such as a proxy.
    return undefined;
  }
}

async function readKey(entry: Record<string, unknown>): Promise<SigningKey | undefined> {
  const { kid, use, key_ops: purposes } = entry;
  const isNamed = typeof kid === "string" && kid !== "" && kid.length <= kidCharsMax;
  const isForSigning = use === undefined || use === "sig";
  const isForVerifying = !Array.isArray(purposes) || purposes.includes("verify");
  if (!isNamed || !isForSigning || !isForVerifying) return undefined;
  const jwk = publicPartOf(entry);
  if (jwk === undefined) return undefined;
  const fitting = algorithmsOf(jwk).filter((each) =>
    [each, undefined].includes(entry["alg"] as Algorithm),
  );
  const byAlgorithm = new Map<string, CryptoKey>();
  for (const algorithm of fitting) {
    const key = await importKey(jwk, algorithm);
    if (key !== undefined) byAlgorithm.set(algorithm, key);
  }
  if (byAlgorithm.size === 0) return undefined;
  let isGone = false;
  return {
    kid,
    byAlgorithm,
    material: JSON.stringify([kid, jwk, fitting]),
    isGone: () => isGone,
    drop: () => {
      isGone = true;
    },
  };
}

/** Only the public part: a private key that was published by mistake is not kept. */
function publicPartOf({ kty, n, e, crv, x, y }: Record<string, unknown>): JWK | undefined {
  if (kty === "RSA" && isText(n) && isText(e)) return { kty, n, e };
  if (kty === "EC" && crv === "P-256" && isText(x) && isText(y)) return { kty, crv, x, y };
  if (kty === "OKP" && crv === "Ed25519" && isText(x)) return { kty, crv, x };
  return undefined;
}

function algorithmsOf({ kty }: JWK): readonly Algorithm[] {
  if (kty === "RSA") return ["RS256", "RS384", "RS512"];
  return kty === "EC" ? ["ES256"] : ["EdDSA"];
}

async function importKey(jwk: JWK, algorithm: Algorithm): Promise<CryptoKey | undefined> {
  try {
    const key = await importJWK(jwk, algorithm);
    return key instanceof Uint8Array || !isStrong(key) ? undefined : key;
  } catch {
    // The numbers are not a valid key; the other keys of the set can still be used.
    return undefined;
  }
}

const modulusBitsMin = 2048;

function isStrong({ algorithm }: CryptoKey): boolean {
  return !("modulusLength" in algorithm) || Number(algorithm.modulusLength) >= modulusBitsMin;
}

function isText(value: unknown): value is string {
  return typeof value === "string" && value !== "";
}
