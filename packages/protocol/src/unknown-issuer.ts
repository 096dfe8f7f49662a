/** The ways in which OpenSSL says that nobody vouches for a certificate. */
const codes: ReadonlySet<string> = new Set([
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
  "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
  "SELF_SIGNED_CERT_IN_CHAIN",
  "DEPTH_ZERO_SELF_SIGNED_CERT",
]);

/** Whether a connection failed because the CA of the server is not known here. */
export function isUnknownIssuer(code: string): boolean {
  return codes.has(code);
}
