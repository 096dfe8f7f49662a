/** The rows of the table of settings that are about connections: TLS, and what one may cost. */

import { choice, text, trueOrFalse } from "./parsers.ts";
import { bytes, count, type SettingRow, seconds } from "./setting-row.ts";
import type { ConnectionSettings } from "./settings.ts";

const file = text({ accepts: "a file", example: "/etc/codeq/tls.crt" });

export const connectionSettings: {
  readonly [K in keyof ConnectionSettings]: SettingRow<ConnectionSettings[K]>;
} = {
  tlsCertFile: {
    parser: file,
    initial: "",
    initialInWords: "none: no TLS",
    about:
      "PEM file with the certificate of all listeners, the server's own first, then those that lead to its CA; read again when it changes.",
  },
  tlsKeyFile: {
    parser: file,
    initial: "",
    initialInWords: "none: no TLS",
    about: "PEM file with the private key of the certificate, not encrypted.",
  },
  tlsClientCaFile: {
    parser: file,
    initial: "",
    initialInWords: "none: clients are not asked for a certificate",
    about: "PEM file with the CAs whose certificates clients may show; needs tlsCertFile.",
  },
  tlsClientAuth: {
    parser: choice(["required", "optional"]),
    initial: "required",
    about:
      "What tlsClientCaFile asks of clients: `required` refuses a client without a certificate of these CAs, `optional` only one with a wrong certificate.",
  },
  insecure: {
    parser: trueOrFalse,
    initial: false,
    about:
      "States that listening beyond this machine without TLS is meant, behind a proxy that does TLS, say; without it the server warns.",
  },
  connectionsMax: {
    ...count(1, 1_000_000, 10_000),
    about:
      "Most connections open at once, on each listener; beyond it the one that has been idle for longest is closed.",
  },
  headersTimeoutSeconds: {
    ...seconds(1, 3600, 10),
    about:
      "How long a client may take for the handshake of TLS, and for the headers of a request; at most requestTimeoutSeconds.",
  },
  requestTimeoutSeconds: {
    ...seconds(1, 86_400, 60),
    about: "How long a client may take to send a whole HTTP request, body included.",
  },
  keepAliveSeconds: {
    ...seconds(1, 86_400, 72),
    about:
      "How long an HTTP connection stays open after an answer; to be longer than that of a proxy in front.",
  },
  headerBytesMax: {
    ...bytes(4096, 1024 * 1024, 16 * 1024),
    about: "Largest headers of a request or of a call.",
  },
  streamsPerConnectionMax: {
    ...count(1, 100_000, 256),
    about: "Most gRPC calls open at once on one connection.",
  },
  streamsMax: {
    ...count(1, 1_000_000, 20_000),
    about: "Most gRPC streams that are open at once; one tenant has at most half of them.",
  },
};
