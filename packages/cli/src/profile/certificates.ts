/** The certificates that options and variables name: the CA of the server, and the client certificate. */
import { readFile } from "node:fs/promises";
import { CliError, usageError } from "../cli-error.ts";
import type { Host } from "../host.ts";
import type { Options } from "../options.ts";

export interface Certificates {
  readonly ca?: Buffer;
  readonly cert?: Buffer;
  readonly key?: Buffer;
}

export async function readCertificates(
  { env }: Pick<Host, "env">,
  options: Options,
): Promise<Certificates> {
  const paths = {
    ca: options.text("ca-file") ?? env["CODEQ_CA_FILE"],
    cert: options.text("cert-file") ?? env["CODEQ_CERT_FILE"],
    key: options.text("key-file") ?? env["CODEQ_KEY_FILE"],
  };
  if (!paths.cert !== !paths.key) {
    throw usageError(
      "a client certificate needs both --cert-file and --key-file",
      "pass both, or set both CODEQ_CERT_FILE and CODEQ_KEY_FILE",
    );
  }
  const read = await Promise.all(
    Object.entries(paths).map(async ([name, path]) => [name, path ? await bytesOf(path) : path]),
  );
  return Object.fromEntries(read.filter(([, bytes]) => bytes instanceof Buffer)) as Certificates;
}

async function bytesOf(path: string): Promise<Buffer> {
  try {
    return await readFile(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new CliError(`cannot read the certificate or key ${path} (${code})`, {
      exit: "usage",
      next: "check --ca-file, --cert-file and --key-file, or CODEQ_CA_FILE, CODEQ_CERT_FILE and CODEQ_KEY_FILE",
      cause: error,
    });
  }
}
