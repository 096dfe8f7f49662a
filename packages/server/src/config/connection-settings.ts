/** The settings of connections: TLS and limits. */

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
      "PEM file with the certificate for all ports: the certificate of the server, then the intermediate certificates. The server reloads the file when it changes.",
  },
  tlsKeyFile: {
    parser: file,
    initial: "",
    initialInWords: "none: no TLS",
    about: "PEM file with the private key of the certificate, without a passphrase.",
  },
  tlsClientCaFile: {
    parser: file,
    initial: "",
    initialInWords: "none: no client certificates",
    about: "PEM file with the CAs of client certificates; needs tlsCertFile.",
  },
  tlsClientAuth: {
    parser: choice(["required", "optional"]),
    initial: "required",
    about:
      "Whether client certificates are `required`, or `optional`: then only clients with an invalid certificate are rejected.",
  },
  insecure: {
    parser: trueOrFalse,
    initial: false,
    about:
      "States that listening on other addresses without TLS is intended, for example behind a proxy that terminates TLS. Otherwise the server logs a warning.",
  },
  connectionsMax: {
    ...count(1, 1_000_000, 10_000),
    about:
      "Maximum number of open connections per port; above it the server closes the connection that has been idle for the longest time.",
  },
  headersTimeoutSeconds: {
    ...seconds(1, 3600, 10),
    about:
      "Time limit for the TLS handshake, and for the headers of a request; at most requestTimeoutSeconds.",
  },
  requestTimeoutSeconds: {
    ...seconds(1, 86_400, 60),
    about: "Time limit for receiving a whole HTTP request, including the body.",
  },
  keepAliveSeconds: {
    ...seconds(1, 86_400, 72),
    about:
      "How long an idle HTTP connection stays open; must be longer than the idle timeout of a proxy in front.",
  },
  headerBytesMax: {
    ...bytes(4096, 1024 * 1024, 16 * 1024),
    about: "Maximum size of the headers of a request or gRPC call.",
  },
  streamsPerConnectionMax: {
    ...count(1, 100_000, 256),
    about: "Maximum number of open gRPC calls per connection.",
  },
  streamsMax: {
    ...count(1, 1_000_000, 20_000),
    about: "Maximum number of open gRPC streams; one tenant can have at most half of them.",
  },
};
