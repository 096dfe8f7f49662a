/** The settings of a cluster: how the lists of its nodes are read, and the rules between settings. */
import type { Settings } from "./settings.ts";

export interface ClusterNode {
  readonly id: string;
  /** The address at which other nodes reach the node. */
  readonly address: string;
}

const nodesMax = 9;
/** Log servers accept records of 8 MiB; a record holds one request and up to 1 MiB of other requests. */
const bodyBytesMax = 6 * 1024 * 1024;
/** etcd refuses less. */
const heartbeatsMin = 5;
const tlsFiles = ["clusterTlsCertFile", "clusterTlsKeyFile", "clusterTlsCaFile"] as const;

export const clusterNodePattern: RegExp =
  /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}=(?:\[[0-9a-fA-F:]+\]|[^:\s=]+):\d{1,5}$/;
export const clusterUrlPattern: RegExp = /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}=https?:\/\/[^\s=,]+$/;

/** The nodes in the order of the setting; empty without a cluster. */
export function clusterMembers({
  clusterMembers: list,
}: Pick<Settings, "clusterMembers">): readonly ClusterNode[] {
  if (list === "") return [];
  return list.split(",").flatMap((each) => readMember(each) ?? []);
}

/** Reads `id=host:port`; undefined for any other text. */
export function readMember(text: string): ClusterNode | undefined {
  if (!clusterNodePattern.test(text.trim())) return undefined;
  const [id = "", address = ""] = text.trim().split("=");
  return { id, address };
}

/** The URL of the HTTP API of each node, by node id, without a trailing slash. */
export function clusterUrls({
  clusterUrls: list,
}: Pick<Settings, "clusterUrls">): ReadonlyMap<string, string> {
  const pairs = list === "" ? [] : list.split(",").map((each) => each.trim());
  return new Map(
    pairs.map((pair) => {
      const at = pair.indexOf("=");
      return [pair.slice(0, at), pair.slice(at + 1).replace(/\/+$/, "")];
    }),
  );
}

/** The secret that this node shows, and those of other nodes that it accepts. */
export function clusterSecrets({
  clusterSecret: own,
  clusterSecretOther: other,
}: Pick<Settings, "clusterSecret" | "clusterSecretOther">): [own: string, ...others: string[]] {
  return other === "" ? [own] : [own, other];
}

export function clusterProblems(settings: Settings): string[] {
  const nodes = clusterMembers(settings);
  const ids = nodes.map(({ id }) => id);
  if (nodes.length === 0) {
    const ofClusters = [
      "nodeId",
      "clusterSecret",
      "clusterSecretOther",
      "clusterBootstrap",
      "etcdUrls",
      "clusterUrls",
      ...tlsFiles,
    ] as const;
    const alone = ofClusters.filter((name) => settings[name] !== "");
    return alone.map((name) => `${name}: is for a cluster; set clusterMembers, or remove it`);
  }
  const problems: string[] = [];
  if (nodes.length === 2 || nodes.length > nodesMax) {
    problems.push(
      `clusterMembers: names ${nodes.length} nodes; a majority needs 3 or 5, and 4 while one is replaced (1 to try it)`,
    );
  }
  const isUnique = (list: readonly string[]): boolean => new Set(list).size === list.length;
  if (!isUnique(ids) || !isUnique(nodes.map(({ address }) => address))) {
    problems.push("clusterMembers: every node needs an id and an address of its own");
  }
  if (!ids.includes(settings.nodeId)) {
    const written = settings.nodeId === "" ? "is missing" : `${settings.nodeId} is not among them`;
    problems.push(`nodeId: ${written}; clusterMembers has ${ids.join(", ")}`);
  }
  if (settings.clusterSecret === "") {
    problems.push(
      "clusterSecret: required in a cluster; set CODEQ_CLUSTER_SECRET to the same long random text on every node",
    );
  }
  if (settings.clusterBootstrap !== "" && !ids.includes(settings.clusterBootstrap)) {
    const written = settings.clusterBootstrap;
    problems.push(`clusterBootstrap: ${written} is not among clusterMembers (${ids.join(", ")})`);
  }
  if (settings.etcdElectionMs < settings.etcdHeartbeatMs * heartbeatsMin) {
    const least = settings.etcdHeartbeatMs * heartbeatsMin;
    problems.push(
      `etcdElectionMs: has to be ${least} or more, ${heartbeatsMin} times etcdHeartbeatMs`,
    );
  }
  if (settings.bodyBytesMax > bodyBytesMax) {
    problems.push(
      `bodyBytesMax: ${settings.bodyBytesMax} is too much for the log servers of a cluster; lower it, and payloadBytesMax, to ` +
        `${bodyBytesMax} or less, and attach larger data to tasks as artifacts`,
    );
  }
  const missing = tlsFiles.filter((name) => settings[name] === "");
  if (missing.length > 0 && missing.length < tlsFiles.length) {
    problems.push(`${missing.join(", ")}: TLS between nodes needs certificate, key and CA`);
  }
  return problems;
}

/** What is not safe on a network that others use. */
export function clusterWarnings({
  env,
  etcdUrls,
}: Pick<Settings, "env" | "etcdUrls">): readonly string[] {
  const isPlain = etcdUrls.split(",").some((url) => /^http:/i.test(url.trim()));
  if (env !== "prod" || !isPlain) return [];
  return [
    "etcdUrls: http sends every task, and the right to change every task, over the network without encryption; use " +
      "https, and an etcd that asks its clients for a certificate (--client-cert-auth)",
  ];
}
