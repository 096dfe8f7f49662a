/** A CA, a directory with the files of a server, and ways to replace them. */
import { mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
// biome-ignore lint/correctness/noUndeclaredDependencies: only tests use it.
import { makeCertificate, type TestCertificate } from "@codeq/simulated";
import type { TlsSettings } from "../src/edge/tls/certificates.ts";

const dayMs = 24 * 60 * 60 * 1000;

export class TlsWorld {
  readonly directory: string;
  readonly nowMs: number = Date.now();
  readonly ca: TestCertificate = this.authority("ca");
  readonly settings: TlsSettings;

  constructor(t: { after(run: () => void): void }) {
    this.directory = mkdtempSync(join(tmpdir(), "codeq-tls-"));
    t.after(() => rmSync(this.directory, { recursive: true, force: true }));
    this.settings = {
      tlsCertFile: this.path("tls.crt"),
      tlsKeyFile: this.path("tls.key"),
      tlsClientCaFile: "",
      tlsClientAuth: "required",
      headersTimeoutSeconds: 10,
      memoryBytes: 0,
    };
  }

  /** The settings of a server as a process. */
  get env(): Record<string, string> {
    const { tlsCertFile, tlsKeyFile } = this.settings;
    return { CODEQ_TLS_CERT_FILE: tlsCertFile, CODEQ_TLS_KEY_FILE: tlsKeyFile };
  }

  path(name: string): string {
    return join(this.directory, name);
  }

  write(name: string, text: string): string {
    writeFileSync(this.path(name), text);
    return this.path(name);
  }

  /** As most tools do it: there is no moment without a whole file. */
  replace(name: string, text: string): void {
    renameSync(this.write(`${name}.new`, text), this.path(name));
  }

  writeServer({ cert, key }: TestCertificate): void {
    this.replace("tls.crt", cert);
    this.replace("tls.key", key);
  }

  /** What asks clients for a certificate of the CA. */
  mutual(tlsClientAuth: TlsSettings["tlsClientAuth"]): TlsSettings {
    const tlsClientCaFile = this.write("clients.crt", this.ca.cert);
    return { ...this.settings, tlsClientCaFile, tlsClientAuth };
  }

  authority(name: string): TestCertificate {
    return makeCertificate({ name, isCa: true, ...this.days(-1, 365) });
  }

  /** For localhost, for a year, signed by the CA, unless told otherwise. */
  issue(name: string, more: Partial<Parameters<typeof makeCertificate>[0]> = {}): TestCertificate {
    return makeCertificate({
      name,
      issuer: this.ca,
      dnsNames: ["localhost"],
      addresses: ["127.0.0.1"],
      ...this.days(-1, 365),
      ...more,
    });
  }

  days(from: number, to: number): { validFromMs: number; validToMs: number } {
    return { validFromMs: this.nowMs + from * dayMs, validToMs: this.nowMs + to * dayMs };
  }
}
