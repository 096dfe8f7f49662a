/** A secret in masked form: enough of it to tell it from another one. */
const shownChars = 4;

export function mask(secret: string | undefined): string | undefined {
  if (secret === undefined) return undefined;
  return secret.length <= shownChars * 3 ? "****" : `${secret.slice(0, shownChars)}****`;
}
