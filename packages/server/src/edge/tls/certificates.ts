/**
 * The certificate, its key and the CAs of clients, read from files. Unusable files are refused with the
 * reason and what to do; all problems at once. No message repeats a key.
 */
import { createPrivateKey, type KeyObject, X509Certificate } from "node:crypto";
import { readFileSync, statSync } from "node:fs";
import { createSecureContext } from "node:tls";
import type { Config } from "../../config/settings.ts";

export type TlsSettings = Pick<
  Config,
  | "tlsCertFile"
  | "tlsKeyFile"
  | "tlsClientCaFile"
  | "tlsClientAuth"
  | "headersTimeoutSeconds"
  | "memoryBytes"
>;

type FileKey = "tlsCertFile" | "tlsKeyFile" | "tlsClientCaFile";

/** The contents of each file, or why it could not be read. */
export type TlsFiles = { readonly [K in FileKey]?: Buffer | { readonly problem: string } };

export interface Certificates {
  readonly cert: Buffer;
  readonly key: Buffer;
  /** Undefined when clients are not asked for a certificate. */
  readonly clientCas: Buffer | undefined;
  /** Subject, names and serial number, for the log. */
  readonly subject: string;
  readonly validFromMs: number;
  readonly validToMs: number;
}

export interface CheckedCertificates {
  /** Undefined when there are problems. */
  readonly certificates: Certificates | undefined;
  readonly problems: readonly string[];
  readonly warnings: readonly string[];
}

export function loadCertificates(settings: TlsSettings, nowMs: number): CheckedCertificates {
  return checkCertificates(settings, readTlsFiles(settings), nowMs);
}

const fileKeys: readonly FileKey[] = ["tlsCertFile", "tlsKeyFile", "tlsClientCaFile"];
/** A bundle of all public CAs has a quarter of this size. */
const fileBytesMax = 1024 * 1024;

export function readTlsFiles(settings: TlsSettings): TlsFiles {
  const names = fileKeys.filter((name) => settings[name] !== "");
  return Object.fromEntries(names.map((name) => [name, readOne(settings[name])]));
}

function readOne(path: string): Buffer | { readonly problem: string } {
  try {
    const stat = statSync(path);
    if (!stat.isFile()) return { problem: "is not a file" };
    if (stat.size > fileBytesMax) return { problem: `has more than ${fileBytesMax} bytes` };
    return readFileSync(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT") return { problem: "does not exist" };
    return { problem: `cannot be read (${code}); the server's user needs to` };
  }
}

export function checkCertificates(
  settings: TlsSettings,
  files: TlsFiles,
  nowMs: number,
): CheckedCertificates {
  const report = new Report(settings);
  const cert = report.bytesOf(files, "tlsCertFile");
  const key = report.bytesOf(files, "tlsKeyFile");
  const clientCas = report.bytesOf(files, "tlsClientCaFile");
  const chain = cert && parseChain(cert, report, "tlsCertFile");
  const privateKey = key && parseKey(key, report);
  if (clientCas) checkClientCas(clientCas, report, nowMs);
  const own = chain?.[0];
  if (own && chain) checkOwn(chain, report, nowMs);
  if (chain && privateKey) checkPair(chain, privateKey, report);
  if (cert && key && report.problems.length === 0) checkUsable({ cert, key, clientCas }, report);
  const { problems, warnings } = report;
  if (problems.length > 0 || !cert || !key || !own) {
    return { certificates: undefined, problems, warnings };
  }
  const certificates: Certificates = {
    cert,
    key,
    clientCas,
    subject: describe(own),
    validFromMs: own.validFromDate.getTime(),
    validToMs: own.validToDate.getTime(),
  };
  return { certificates, problems, warnings };
}

/** Problems and warnings; each line names the setting and its file. */
class Report {
  readonly problems: string[] = [];
  readonly warnings: string[] = [];
  readonly #settings: TlsSettings;

  constructor(settings: TlsSettings) {
    this.#settings = settings;
  }

  bytesOf(files: TlsFiles, name: FileKey): Buffer | undefined {
    const file = files[name];
    if (file === undefined || Buffer.isBuffer(file)) return file;
    this.problem(name, file.problem);
    return undefined;
  }

  problem(name: FileKey, text: string): void {
    this.problems.push(`${name}: ${this.#settings[name]} ${text}`);
  }

  warn(name: FileKey, text: string): void {
    this.warnings.push(`${name}: ${this.#settings[name]} ${text}`);
  }
}

const pemBlock = /-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g;

function parseChain(bytes: Buffer, report: Report, name: FileKey): X509Certificate[] | undefined {
  const blocks = bytes.toString("latin1").match(pemBlock) ?? [];
  if (blocks.length === 0) {
    report.problem(name, "has no certificate in PEM form (-----BEGIN CERTIFICATE-----)");
    return undefined;
  }
  try {
    return blocks.map((block) => new X509Certificate(block));
  } catch {
    // The message of the library is about ASN.1 and does not help an operator.
    report.problem(name, "is damaged: a certificate in it cannot be decoded; copy it again");
    return undefined;
  }
}

function parseKey(bytes: Buffer, report: Report): KeyObject | undefined {
  try {
    return createPrivateKey(bytes);
  } catch {
    // The library gives no reason that helps an operator.
    report.problem(
      "tlsKeyFile",
      bytes.includes("ENCRYPTED")
        ? "is encrypted; write it without a passphrase (openssl pkey -in <file>) and guard the file"
        : "has no private key in PEM form (-----BEGIN PRIVATE KEY-----)",
    );
    return undefined;
  }
}

function checkOwn(chain: readonly X509Certificate[], report: Report, nowMs: number): void {
  const [own, ...others] = chain;
  if (own === undefined) return;
  if (own.validToDate.getTime() <= nowMs) {
    report.problem("tlsCertFile", `expired on ${own.validToDate.toISOString()}; renew it`);
  } else if (own.validFromDate.getTime() > nowMs) {
    const from = own.validFromDate.toISOString();
    report.problem("tlsCertFile", `is valid only from ${from}; check the clock of this machine`);
  }
  if (own.subjectAltName === undefined) {
    report.warn("tlsCertFile", "has no subjectAltName; most clients accept no other names");
  }
  for (const other of others.filter(({ validToDate }) => validToDate.getTime() <= nowMs)) {
    report.warn("tlsCertFile", `holds a certificate that has expired (${describe(other)})`);
  }
}

function describe({ subject, subjectAltName, serialNumber }: X509Certificate): string {
  const parts = [subject, subjectAltName, `serial ${serialNumber}`];
  return parts.filter(Boolean).join(", ").replaceAll("\n", ", ");
}

function checkPair(chain: readonly X509Certificate[], key: KeyObject, report: Report): void {
  const at = chain.findIndex((certificate) => certificate.checkPrivateKey(key));
  if (at === 0) return;
  if (at > 0) {
    report.problem("tlsCertFile", "has the server's own certificate behind others; put it first");
  } else {
    report.problem("tlsKeyFile", "is not the key of the certificate in tlsCertFile");
  }
}

function checkClientCas(bytes: Buffer, report: Report, nowMs: number): void {
  const cas = parseChain(bytes, report, "tlsClientCaFile");
  if (cas === undefined) return;
  const expired = cas.filter(({ validToDate }) => validToDate.getTime() <= nowMs).length;
  if (expired === cas.length) {
    report.problem("tlsClientCaFile", "has only CAs that have expired; no client could connect");
  } else if (expired > 0) {
    report.warn("tlsClientCaFile", `has ${expired} of ${cas.length} CAs that have expired`);
  }
}

/** Asks the TLS library, which refuses keys that are too short, for example. */
function checkUsable(
  { cert, key, clientCas }: Pick<Certificates, "cert" | "key" | "clientCas">,
  report: Report,
): void {
  try {
    createSecureContext({ cert, key, ...(clientCas ? { ca: clientCas } : {}) });
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    report.problem("tlsCertFile", `cannot be used: ${code ?? message}; issue a stronger one`);
  }
}
