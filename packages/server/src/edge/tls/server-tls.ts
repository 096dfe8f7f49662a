/**
 * TLS for all listeners. A certificate that is renewed on disk is used for the next handshake; open
 * connections are not affected. A certificate that cannot be used is logged and has no other effect.
 *
 * Files are read again when something in their directories changes, when `reload` is called, and once a
 * minute, because not every file system reports changes.
 */
import { createHash } from "node:crypto";
import type { Server, TLSSocket, TlsOptions } from "node:tls";
import { handshakesOf, memoryOf } from "../../config/memory.ts";
import type { Clock } from "../../core/clock.ts";
import { HandshakeTurns } from "../../core/handshake-turns.ts";
import type { Logger } from "../../telemetry/logger.ts";
import {
  type Certificates,
  checkCertificates,
  readTlsFiles,
  type TlsFiles,
  type TlsSettings,
} from "./certificates.ts";
import { WatchedFiles } from "./watched-files.ts";

export interface ServerTlsParts {
  readonly settings: TlsSettings;
  readonly certificates: Certificates;
  readonly logger: Logger;
  readonly clock: Clock;
}

/** Certificate and key are two files that are rarely replaced at the same moment. */
const settleMs = 250;
const lookAgainMs = 60_000;
const dayMs = 24 * 60 * 60 * 1000;
/** The log asks for a new certificate when this share of its lifetime is left. */
const lateShare = 0.1;

export class ServerTls implements Disposable {
  readonly #parts: ServerTlsParts;
  readonly #servers = new Set<Server>();
  readonly #files: WatchedFiles;
  readonly #turns: HandshakeTurns;
  #certificates: Certificates;
  /** The fingerprint of the files that were read last, usable or not. */
  #seen: string;
  #remindMs = Number.NEGATIVE_INFINITY;
  #cancelSettle: (() => void) | undefined;
  #cancelLook: () => void;

  constructor(parts: ServerTlsParts) {
    const { settings, certificates, clock } = parts;
    this.#parts = parts;
    this.#certificates = certificates;
    this.#turns = new HandshakeTurns(clock, {
      silentMsMax: settings.headersTimeoutSeconds * 1000,
      unfinishedMax: handshakesOf(memoryOf(settings)),
    });
    const { cert, key, clientCas } = certificates;
    this.#seen = fingerprint({
      tlsCertFile: cert,
      tlsKeyFile: key,
      ...(clientCas === undefined ? {} : { tlsClientCaFile: clientCas }),
    });
    const { tlsCertFile, tlsKeyFile, tlsClientCaFile } = settings;
    const paths = [tlsCertFile, tlsKeyFile, tlsClientCaFile].filter((path) => path !== "");
    this.#files = new WatchedFiles(paths, () => {
      this.#cancelSettle ??= clock.after(settleMs, () => {
        this.#cancelSettle = undefined;
        this.reload();
      });
    });
    this.#cancelLook = () => {};
    this.#lookLater();
    this.#remind();
  }

  get certificates(): Certificates {
    return this.#certificates;
  }

  /** The options to create a server with. */
  get options(): TlsOptions {
    const { tlsClientAuth, headersTimeoutSeconds } = this.#parts.settings;
    const asksClients = this.#certificates.clientCas !== undefined;
    return {
      ...contextOf(this.#certificates),
      handshakeTimeout: headersTimeoutSeconds * 1000,
      requestCert: asksClients,
      rejectUnauthorized: asksClients && tlsClientAuth === "required",
    };
  }

  /** Keeps the server's certificate up to date, refuses wrong client certificates, and gives turns to handshakes. */
  attach(server: Server): void {
    const { logger } = this.#parts;
    this.#turns.watch(server);
    this.#servers.add(server);
    server.once("close", () => this.#servers.delete(server));
    // Runs before the first byte of the connection is read.
    server.prependListener("secureConnection", (socket) => {
      if (!showsWrongCertificate(socket)) return;
      logger.debug("TLS client refused", { reason: socket.authorizationError });
      socket.destroy();
    });
    server.on("tlsClientError", (error) => logger.debug("TLS handshake failed", { error }));
  }

  /** Reads the files immediately. */
  reload(): void {
    const { settings, logger, clock } = this.#parts;
    this.#files.refresh();
    const files = readTlsFiles(settings);
    const seen = fingerprint(files);
    if (seen === this.#seen) return;
    this.#seen = seen;
    const { certificates, problems, warnings } = checkCertificates(settings, files, clock.nowMs());
    for (const warning of warnings) logger.warn("TLS certificate", { warning });
    if (certificates === undefined) {
      const kept = this.#certificates.subject;
      logger.error("new TLS files cannot be used; the old certificate stays", { problems, kept });
      return;
    }
    this.#certificates = certificates;
    for (const server of this.#servers) server.setSecureContext(contextOf(certificates));
    const { subject, validToMs } = certificates;
    logger.info("TLS certificate replaced", { subject, validTo: new Date(validToMs) });
    this.#remindMs = Number.NEGATIVE_INFINITY;
    this.#remind();
  }

  [Symbol.dispose](): void {
    this.#cancelSettle?.();
    this.#cancelLook();
    this.#files[Symbol.dispose]();
  }

  #lookLater(): void {
    this.#cancelLook = this.#parts.clock.after(lookAgainMs, () => {
      this.reload();
      this.#remind();
      this.#lookLater();
    });
  }

  #remind(): void {
    const { clock, logger } = this.#parts;
    const { validFromMs, validToMs, subject } = this.#certificates;
    const nowMs = clock.nowMs();
    const isLate = validToMs - nowMs < (validToMs - validFromMs) * lateShare;
    if (!isLate || nowMs < this.#remindMs) return;
    this.#remindMs = nowMs + dayMs;
    logger.warn("the TLS certificate has to be renewed", { subject, validTo: new Date(validToMs) });
  }
}

function contextOf({ cert, key, clientCas }: Certificates): TlsOptions {
  return {
    cert,
    key,
    minVersion: "TLSv1.2",
    ...(clientCas === undefined ? {} : { ca: clientCas }),
  };
}

/** A client certificate may be optional, but a wrong one is refused. */
function showsWrongCertificate(socket: TLSSocket): boolean {
  return !socket.authorized && socket.getPeerX509Certificate() !== undefined;
}

function fingerprint(files: TlsFiles): string {
  const hash = createHash("sha256");
  for (const [name, file] of Object.entries(files).sort()) {
    hash.update(`${name}\n`);
    hash.update(Buffer.isBuffer(file) ? file : file.problem);
  }
  return hash.digest("hex");
}
