/**
 * Text that this server gives to browsers and gets back, encrypted and authenticated, so that browsers can
 * neither read nor change it. Seals for different purposes do not open each other's texts.
 */
import { createCipheriv, createDecipheriv, hash } from "node:crypto";
import type { RandomBytes } from "../../core/task-ids.ts";

const algorithm = "aes-256-gcm";
const ivBytes = 12;
const tagBytes = 16;

export class Seal {
  readonly #key: Buffer;
  readonly #randomBytes: RandomBytes;

  constructor(parts: {
    /** The same on all servers that open each other's texts. */
    readonly secret: string;
    readonly purpose: string;
    readonly randomBytes: RandomBytes;
  }) {
    this.#key = Buffer.from(
      hash("sha256", `codeq ${parts.purpose}\0${parts.secret}`, "hex"),
      "hex",
    );
    this.#randomBytes = parts.randomBytes;
  }

  close(text: string): string {
    const iv = Buffer.alloc(ivBytes);
    this.#randomBytes(iv);
    const cipher = createCipheriv(algorithm, this.#key, iv);
    const sealed = [iv, cipher.update(text, "utf8"), cipher.final(), cipher.getAuthTag()];
    return Buffer.concat(sealed).toString("base64url");
  }

  /** Undefined for what this seal did not close, or what was changed since. */
  open(sealed: string): string | undefined {
    const bytes = Buffer.from(sealed, "base64url");
    if (bytes.length <= ivBytes + tagBytes) return undefined;
    try {
      const decipher = createDecipheriv(algorithm, this.#key, bytes.subarray(0, ivBytes));
      decipher.setAuthTag(bytes.subarray(-tagBytes));
      const text = bytes.subarray(ivBytes, -tagBytes);
      return Buffer.concat([decipher.update(text), decipher.final()]).toString("utf8");
    } catch {
      // Sealed by another server or for another purpose, or changed: either way it says nothing.
      return undefined;
    }
  }
}

/** Random bytes as text. */
export function drawText(randomBytes: RandomBytes, bytes: number): string {
  const drawn = Buffer.alloc(bytes);
  randomBytes(drawn);
  return drawn.toString("base64url");
}
