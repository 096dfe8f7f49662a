/** The settings of a cluster, and the rules between them. */
import { text, trueOrFalse } from "./parsers.ts";
import { bytes, type SettingRow } from "./setting-row.ts";
import type { ClusterSettings, Settings } from "./settings.ts";

export interface ClusterNode {
  readonly id: string;
  /** Where the other nodes reach it. */
  readonly address: string;
}

const gibibyte = 1024 * 1024 * 1024;
const secretCharsMin = 32;
const nodesMax = 9;
/** Log servers take records of 8 MiB, in which a request is together with up to 1 MiB of others. */
const bodyBytesMax = 6 * 1024 * 1024;
const nodePattern = /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}=(?:\[[0-9a-fA-F:]+\]|[^:\s=]+):\d{1,5}$/;

const urlPattern = /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}=https?:\/\/[^\s=,]+$/;

const file = text({ accepts: "a file", example: "/etc/codeq/node.crt" });
const tlsFiles = ["clusterTlsCertFile", "clusterTlsKeyFile", "clusterTlsCaFile"] as const;

export const clusterSettings: {
  readonly [K in keyof ClusterSettings]: SettingRow<ClusterSettings[K]>;
} = {
  clusterMembers: {
    parser: text({
      accepts: "id=host:port pairs separated by commas",
      example: "a=10.0.0.1:7000,b=10.0.0.2:7000,c=10.0.0.3:7000",
      test: (list) => list.split(",").every((each) => nodePattern.test(each.trim())),
    }),
    initial: "",
    initialInWords: "none: a server alone",
    about:
      "All nodes of the cluster, this one included, with the address at which other nodes reach them. The two ports above each are for its nats-server, unless natsUrls is set.",
  },
  nodeId: {
    parser: text({ accepts: "the id of a node in clusterMembers", example: "a" }),
    initial: "",
    initialInWords: "none",
    about: "Which of clusterMembers this server is.",
  },
  clusterSecret: {
    parser: text({
      accepts: `a text of at least ${secretCharsMin} characters`,
      example: "...",
      test: (secret) => secret.length >= secretCharsMin,
    }),
    initial: "",
    initialInWords: "none",
    secret: true,
    about: "What all nodes of a cluster know, and nobody else.",
  },
  clusterBootstrap: {
    parser: trueOrFalse,
    initial: false,
    about:
      "Whether this node makes the logs of a new cluster if there are none; for one node, at its first start.",
  },
  clusterLogBytes: {
    ...bytes(gibibyte, 1024 * gibibyte, 8 * gibibyte),
    about: "Room for the log of each shard on every log server; taken when the log is made.",
  },
  clusterTlsCertFile: {
    parser: file,
    initial: "",
    initialInWords: "none: no TLS between nodes",
    about:
      "PEM file with the certificate that this node shows to other nodes and log servers, which must name its host in clusterMembers. Read at the start.",
  },
  clusterTlsKeyFile: {
    parser: file,
    initial: "",
    initialInWords: "none: no TLS between nodes",
    about: "PEM file with the private key of clusterTlsCertFile, without a passphrase.",
  },
  clusterTlsCaFile: {
    parser: file,
    initial: "",
    initialInWords: "none: no TLS between nodes",
    about: "PEM file with the CA that signed the certificates of all nodes; others are refused.",
  },
  natsUrls: {
    parser: text({
      accepts: "nats:// URLs separated by commas",
      example: "nats://10.0.0.1:4222,nats://10.0.0.2:4222",
      test: (list) => list.split(",").every((each) => /^(nats|tls):\/\/./.test(each.trim())),
    }),
    initial: "",
    initialInWords: "none: every node runs a nats-server of its own",
    secret: true,
    about:
      "Log servers of the cluster: nats-server 2.14.5 or newer with JetStream, `sync_interval: always` and max_payload of 8 MB.",
  },
  natsServer: {
    parser: text({ accepts: "a program", example: "/usr/local/bin/nats-server" }),
    initial: "nats-server",
    about: "The nats-server that a node of a cluster runs, unless natsUrls is set.",
  },
  clusterUrls: {
    parser: text({
      accepts: "id=url pairs separated by commas",
      example: "a=https://a.example:8080,b=https://b.example:8080",
      test: (list) => list.split(",").every((each) => urlPattern.test(each.trim())),
    }),
    initial: "",
    initialInWords: "none: no redirects",
    about:
      "The addresses of the HTTP API of all nodes, for clients that ask to be redirected to the leader.",
  },
};

/** The nodes in the order of the setting; none for a server alone. */
export function clusterMembers({ clusterMembers: list }: ClusterSettings): readonly ClusterNode[] {
  if (list === "") return [];
  return list.split(",").flatMap((each) => readMember(each) ?? []);
}

/** One of them; undefined for what is none. */
export function readMember(text: string): ClusterNode | undefined {
  if (!nodePattern.test(text.trim())) return undefined;
  const [id = "", address = ""] = text.trim().split("=");
  return { id, address };
}

/** The addresses of the HTTP API, without a slash at the end, by the ids of their nodes. */
export function clusterUrls({ clusterUrls: list }: ClusterSettings): ReadonlyMap<string, string> {
  const pairs = list === "" ? [] : list.split(",").map((each) => each.trim());
  return new Map(
    pairs.map((pair) => {
      const at = pair.indexOf("=");
      return [pair.slice(0, at), pair.slice(at + 1).replace(/\/+$/, "")];
    }),
  );
}

export function clusterProblems(
  settings: ClusterSettings & Pick<Settings, "bodyBytesMax">,
): string[] {
  const nodes = clusterMembers(settings);
  const ids = nodes.map(({ id }) => id);
  if (nodes.length === 0) {
    const ofClusters = [
      "nodeId",
      "clusterSecret",
      "clusterBootstrap",
      "natsUrls",
      "clusterUrls",
      ...tlsFiles,
    ] as const;
    const alone = ofClusters.filter((name) => settings[name] !== "" && settings[name] !== false);
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
