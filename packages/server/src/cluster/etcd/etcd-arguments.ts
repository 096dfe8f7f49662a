/**
 * The arguments of the etcd of a node. Peers and clients need certificates of the cluster: without them, any
 * process that reaches the port of etcd could join it.
 */
import { isIP } from "node:net";
import { hostAndPort } from "../peers/peers.ts";

export interface EtcdConfig {
  /** The id of its node. */
  readonly name: string;
  /** For its data and its log. */
  readonly directory: string;
  readonly clientAddress: string;
  readonly peerAddress: string;
  /** All members, this one included, by their names. */
  readonly members: readonly EtcdPeer[];
  /** Whether the member joins others that run already, instead of beginning with them. */
  readonly isJoining: boolean;
  readonly quotaBytes: number;
  readonly tls: EtcdTlsFiles | undefined;
  readonly heartbeatMs: number;
  readonly electionMs: number;
}

export interface EtcdPeer {
  readonly name: string;
  readonly address: string;
}

/** Paths of PEM files. */
export interface EtcdTlsFiles {
  readonly certFile: string;
  readonly keyFile: string;
  readonly caFile: string;
}

/** The largest group of changes (a nearly full group with one more large task) with its keys. */
const requestBytesMax = 9 * 1024 * 1024;
/** The newest entries are in memory; each may be as large as a group of changes. */
const snapshotCount = 1000;

export function etcdArguments(config: EtcdConfig): string[] {
  const { name, members, tls, clientAddress, peerAddress } = config;
  const scheme = tls === undefined ? "http" : "https";
  const cluster = members.map((each) => `${each.name}=${scheme}://${each.address}`);
  return [
    `--name=${name}`,
    `--data-dir=${config.directory}/data`,
    `--listen-peer-urls=${scheme}://${bindAddress(peerAddress)}`,
    `--initial-advertise-peer-urls=${scheme}://${peerAddress}`,
    `--listen-client-urls=${scheme}://${bindAddress(clientAddress)}`,
    `--advertise-client-urls=${scheme}://${clientAddress}`,
    `--initial-cluster=${cluster.join(",")}`,
    "--initial-cluster-token=codeq",
    `--initial-cluster-state=${config.isJoining ? "existing" : "new"}`,
    `--heartbeat-interval=${config.heartbeatMs}`,
    `--election-timeout=${config.electionMs}`,
    `--quota-backend-bytes=${config.quotaBytes}`,
    `--max-request-bytes=${requestBytesMax}`,
    `--snapshot-count=${snapshotCount}`,
    `--snapshot-catchup-entries=${snapshotCount}`,
    "--auto-compaction-mode=periodic",
    "--auto-compaction-retention=10m",
    "--grpc-keepalive-min-time=1s",
    "--enable-grpc-gateway=false",
    // A member whose data differs from that of the others stops instead of serving it. The check at the start would make
    // members that start together wait for each other for up to 14 seconds.
    "--feature-gates=CompactHashCheck=true",
    "--log-level=warn",
    `--log-outputs=${config.directory}/etcd.log`,
    "--enable-log-rotation",
    '--log-rotation-config-json={"maxsize":16,"maxbackups":2}',
    // Only learners are added, and codeQ asks who is up before it removes a member. The check of etcd would make every
    // change wait until all members were connected for five seconds.
    "--strict-reconfig-check=false",
    ...(tls === undefined ? [] : tlsArguments(tls)),
  ];
}

function tlsArguments({ certFile, keyFile, caFile }: EtcdTlsFiles): string[] {
  return [
    "--tls-min-version=TLS1.3",
    "--client-cert-auth",
    "--peer-client-cert-auth",
    // A member with a certificate of the cluster belongs to it, also behind another address.
    "--peer-skip-client-san-verification",
    ...["", "peer-"].flatMap((kind) => [
      `--${kind}cert-file=${certFile}`,
      `--${kind}key-file=${keyFile}`,
      `--${kind}trusted-ca-file=${caFile}`,
    ]),
  ];
}

/** etcd listens on addresses only, not on names. */
function bindAddress(address: string): string {
  const { host, port } = hostAndPort(address);
  return isIP(host) === 0 ? `0.0.0.0:${port}` : address;
}
