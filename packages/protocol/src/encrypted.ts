/** How texts that the server cannot read are written: `{"$encrypted":"aes-256-gcm","key":"june","data":"..."}`. */
export interface Encrypted {
  readonly $encrypted: "aes-256-gcm";
  /** The name of the key. */
  readonly key: string;
  /** Base64 of 12 bytes of nonce, the ciphertext and 16 bytes of tag. */
  readonly data: string;
}

/** Undefined for a text that is not encrypted. */
export function encryptedIn(json: string): Encrypted | undefined {
  if (!json.includes('"$encrypted"')) return undefined;
  try {
    const value = JSON.parse(json) as Partial<Encrypted> | null;
    const { $encrypted, key, data } = value ?? {};
    const isEncrypted = $encrypted === "aes-256-gcm" && typeof key === "string";
    return isEncrypted && typeof data === "string" ? { $encrypted, key, data } : undefined;
  } catch {
    // A payload that came over a stream may be any text.
    return undefined;
  }
}
