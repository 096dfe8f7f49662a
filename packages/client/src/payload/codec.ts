/** Inputs and outputs that the server stores without being able to read them. */
import { type Encrypted, encryptedIn } from "@codeq/protocol";
import { CodeqError } from "../codeq-error.ts";

/** How the inputs and outputs of a task are written for the server, and read again. Both are JSON texts. */
export interface Codec {
  /**
   * The text of a JSON object for the server. The same text with the same salt gives the same object, so that a task
   * with an idempotency key can be enqueued again.
   */
  encode(json: string, salt: string): Promise<string>;
  /** What `encode` was given. */
  decode(json: string): Promise<string>;
}

/** Keys, and which of them is used. */
export interface AesGcmOptions {
  /** By name, 32 bytes each; a text is base64. Names are stored with the tasks; keys are not. */
  readonly keys: Readonly<Record<string, string | Uint8Array | undefined>>;
  /** The name of the key that encrypts; all of them decrypt. Default: the only key. */
  readonly current?: string | undefined;
  /** Also read what was not encrypted, such as tasks from the time before. Default: false. */
  readonly acceptPlain?: boolean | undefined;
}

const keyNamePattern = /^[A-Za-z0-9_.-]{1,64}$/;
const keyBytes = 32;
const nonceBytes = 12;

/** The types of Node and of browsers have it under other names. */
type ImportedKey = Awaited<ReturnType<typeof crypto.subtle.importKey>>;

interface Key {
  readonly aes: ImportedKey;
  readonly nonces: ImportedKey;
}

/**
 * A codec that encrypts with AES-256-GCM. To change keys, add the new one, deploy it everywhere, then make it the
 * current one; remove the old one when no task has it any more.
 *
 * ```ts
 * export const charge = task<{ card: string }, void>("charge", {
 *   codec: aesGcm({ keys: { may: process.env.KEY_MAY, june: process.env.KEY_JUNE }, current: "june" }),
 * });
 * ```
 */
export function aesGcm({ keys, current, acceptPlain = false }: AesGcmOptions): Codec {
  const names = Object.keys(keys);
  const bytes = new Map(names.map((name) => [name, bytesOf(name, keys[name])]));
  const name = current ?? (names.length === 1 ? names[0] : undefined);
  if (name === undefined || !bytes.has(name)) {
    throw invalid(`name the key that encrypts with current: one of ${names.join(", ")}`);
  }
  const imported = new Map<string, Promise<Key>>();
  const keyOf = (of: string): Promise<Key> => {
    const found = bytes.get(of);
    if (found === undefined) {
      const text = `the text is encrypted with the key ${of}, and there are ${names.join(", ")}`;
      return Promise.reject(new CodeqError("codec_failed", text));
    }
    const key = imported.get(of) ?? importKey(found);
    imported.set(of, key);
    return key;
  };
  let before: Promise<unknown> = Promise.resolve();
  return {
    encode: (json, salt) => {
      const sealed = keyOf(name).then(async (key) => writtenOf(name, await seal(key, json, salt)));
      const turn = before;
      // Threads encrypt; tasks are sent in the order in which they were given.
      before = Promise.allSettled([turn, sealed]);
      return turn.then(() => sealed);
    },
    decode: async (json) => {
      const encrypted = encryptedIn(json);
      if (encrypted !== undefined) return open(await keyOf(encrypted.key), encrypted);
      if (acceptPlain) return json;
      throw new CodeqError("codec_failed", "the text is not encrypted; acceptPlain would read it");
    },
  };
}

function bytesOf(name: string, key: string | Uint8Array | undefined): Uint8Array<ArrayBuffer> {
  if (!keyNamePattern.test(name)) {
    throw invalid(`invalid name ${JSON.stringify(name)} of a key: 1 to 64 letters, digits, _ . -`);
  }
  const bytes = typeof key === "string" ? fromBase64(key.trim()) : key;
  if (bytes?.length === keyBytes) return new Uint8Array(bytes);
  throw invalid(`the key ${name} has to have ${keyBytes} bytes; a text is base64`);
}

function invalid(text: string): CodeqError {
  return new CodeqError("invalid_option", `aesGcm: ${text}`);
}

async function importKey(bytes: Uint8Array<ArrayBuffer>): Promise<Key> {
  const { subtle } = crypto;
  const hmac = { name: "HMAC", hash: "SHA-256" };
  const root = await subtle.importKey("raw", bytes, hmac, false, ["sign"]);
  const own = await subtle.sign("HMAC", root, new TextEncoder().encode("codeq nonce"));
  return {
    aes: await subtle.importKey("raw", bytes, "AES-GCM", false, ["encrypt", "decrypt"]),
    nonces: await subtle.importKey("raw", own, hmac, false, ["sign"]),
  };
}

/** The nonce follows from text and salt: other texts have other nonces, and the same one is the same again. */
async function seal({ aes, nonces }: Key, json: string, salt: string): Promise<Uint8Array> {
  const { subtle } = crypto;
  const encoder = new TextEncoder();
  const salted = encoder.encode(`${JSON.stringify(salt)}${json}`);
  const iv = new Uint8Array(await subtle.sign("HMAC", nonces, salted)).slice(0, nonceBytes);
  const sealed = await subtle.encrypt({ name: "AES-GCM", iv }, aes, encoder.encode(json));
  const whole = new Uint8Array(nonceBytes + sealed.byteLength);
  whole.set(iv);
  whole.set(new Uint8Array(sealed), nonceBytes);
  return whole;
}

function writtenOf(key: string, sealed: Uint8Array): string {
  const written: Encrypted = { $encrypted: "aes-256-gcm", key, data: toBase64(sealed) };
  return JSON.stringify(written);
}

async function open({ aes }: Key, { key, data }: Encrypted): Promise<string> {
  const whole = fromBase64(data);
  const iv = whole?.subarray(0, nonceBytes);
  try {
    if (whole === undefined || iv === undefined) throw new Error("not base64");
    const algorithm = { name: "AES-GCM", iv };
    const opened = await crypto.subtle.decrypt(algorithm, aes, whole.subarray(nonceBytes));
    return new TextDecoder().decode(opened);
  } catch (cause) {
    const text = `the text cannot be decrypted with the key ${key}: it was changed, or the key is another`;
    throw new CodeqError("codec_failed", text, { cause });
  }
}

/** As many characters as a call may have arguments in every engine. */
const pieceChars = 0x2000;

function toBase64(bytes: Uint8Array): string {
  let text = "";
  for (let at = 0; at < bytes.length; at += pieceChars) {
    text += String.fromCharCode(...bytes.subarray(at, at + pieceChars));
  }
  return btoa(text);
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    return Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
  } catch {
    return undefined;
  }
}
