/** The certificates with which a node shows itself to other nodes and to log servers. */
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { resolve } from "node:path";
import { createSecureContext } from "node:tls";
import { FaultError } from "@codeq/engine";
import type { EtcdTlsFiles } from "../../cluster/etcd/etcd-arguments.ts";
import { clusterCertificate } from "../../cluster/peers/cluster-certificates.ts";
import { hostAndPort, type PeerTls } from "../../cluster/peers/peers.ts";
import { clusterSecrets, type ClusterNode as NamedNode } from "../../config/cluster.ts";
import type { Config } from "../../config/settings.ts";
import type { Clock } from "../../core/clock.ts";
import { WatchedFiles } from "../../edge/tls/watched-files.ts";
import type { Logger } from "../../telemetry/logger.ts";

/** The files of a certificate are rarely replaced at once. */
const settleMs = 200;
const lookAgainMs = 60_000;

/** Files of the user, or a certificate that follows from the secret. */
export async function readClusterTls(config: Config, self: NamedNode): Promise<PeerTls> {
  const files = tlsFiles(config);
  if (files === undefined) {
    const hosts = [...new Set([hostAndPort(self.address).host, "localhost", "127.0.0.1"])];
    const { cert, key, ca } = clusterCertificate(clusterSecrets(config), self.id, hosts);
    return { cert: Buffer.from(cert), key: Buffer.from(key), ca: Buffer.from(ca) };
  }
  return await readFiles(files);
}

async function readFiles({ certFile, keyFile, caFile }: EtcdTlsFiles): Promise<PeerTls> {
  try {
    const [cert, key, ca] = [
      await readFile(certFile),
      await readFile(keyFile),
      await readFile(caFile),
    ];
    createSecureContext({ cert, key, ca });
    return { cert, key, ca };
  } catch (error) {
    const text = `TLS between nodes cannot be used: ${(error as Error).message}`;
    const advice = "Check clusterTlsCertFile, clusterTlsKeyFile and clusterTlsCaFile";
    throw new FaultError("format", `${text}. ${advice}.`);
  }
}

/** Paths of the user's files; undefined for none. */
export function tlsFiles({
  clusterTlsCertFile,
  clusterTlsKeyFile,
  clusterTlsCaFile,
}: Config): EtcdTlsFiles | undefined {
  if (clusterTlsCertFile === "") return undefined;
  return {
    certFile: resolve(clusterTlsCertFile),
    keyFile: resolve(clusterTlsKeyFile),
    caFile: resolve(clusterTlsCaFile),
  };
}

/** etcd reads files only. */
export async function writeTls(directory: string, tls: PeerTls): Promise<EtcdTlsFiles> {
  const write = async (name: string, bytes: Buffer): Promise<string> => {
    const path = resolve(directory, name);
    await writeFile(path, bytes, { mode: 0o600 });
    return path;
  };
  await mkdir(directory, { recursive: true, mode: 0o700 });
  return {
    certFile: await write("cert.pem", tls.cert),
    keyFile: await write("key.pem", tls.key),
    caFile: await write("ca.pem", tls.ca),
  };
}

/**
 * Reads the user's files again when they change. Files that cannot be used change nothing. etcd reads its certificate
 * with every connection, and its CA at the start only.
 */
export function watchClusterTls(
  {
    config,
    clock,
    logger,
  }: { readonly config: Config; readonly clock: Clock; readonly logger: Logger },
  onRenewed: (tls: PeerTls) => void,
): AsyncDisposable {
  const files = tlsFiles(config);
  if (files === undefined) return { [Symbol.asyncDispose]: async () => {} };
  let seen = "";
  let cancel = (): void => {};
  let isClosed = false;
  const look = async (): Promise<void> => {
    watched.refresh();
    try {
      const tls = await readFiles(files);
      const text = Object.values(tls).join("\n");
      if (seen !== "" && text !== seen) {
        onRenewed(tls);
        logger.info("the certificate for other nodes was read again", { file: files.certFile });
      }
      seen = text;
    } catch (error) {
      const { message } = error as Error;
      logger.error("new TLS files cannot be used; the old certificate stays", { error: message });
    }
  };
  const plan = (ms: number): void => {
    cancel();
    if (isClosed) return;
    cancel = clock.after(ms, () => void look().finally(() => plan(lookAgainMs)));
  };
  const watched = new WatchedFiles(Object.values(files), () => plan(settleMs));
  plan(0);
  return {
    [Symbol.asyncDispose]: async () => {
      isClosed = true;
      cancel();
      watched[Symbol.dispose]();
    },
  };
}
