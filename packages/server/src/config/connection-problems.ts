/** The rules between the settings of connections. */
import { exposedAddresses } from "./listen-address.ts";
import type { SettingName, Settings } from "./settings.ts";

export function connectionProblems(
  settings: Settings,
  touched: ReadonlySet<SettingName>,
): string[] {
  const { tlsCertFile, tlsKeyFile, tlsClientCaFile } = settings;
  const problems: string[] = [];
  if ((tlsCertFile === "") !== (tlsKeyFile === "")) {
    const [set, missing] =
      tlsKeyFile === "" ? ["tlsCertFile", "tlsKeyFile"] : ["tlsKeyFile", "tlsCertFile"];
    problems.push(`${missing}: required because ${set} is set; a certificate needs its key`);
  }
  if (tlsClientCaFile !== "" && tlsCertFile === "" && tlsKeyFile === "") {
    problems.push(
      "tlsClientCaFile: client certificates need a server with TLS; set " +
        "tlsCertFile and tlsKeyFile",
    );
  }
  if (touched.has("tlsClientAuth") && !touched.has("tlsClientCaFile")) {
    problems.push(
      "tlsClientAuth: has no effect without the CAs of clients; set tlsClientCaFile, or " +
        "remove tlsClientAuth",
    );
  }
  return problems;
}

export function connectionWarnings(settings: Settings): string[] {
  const exposed = exposedAddresses(settings);
  if (exposed.length === 0 || settings.insecure) return [];
  return [
    `NO TLS on ${exposed.join(", ")}: anyone on the network can read and change tokens and ` +
      "payloads; set tlsCertFile and tlsKeyFile, or insecure: true behind a proxy that terminates TLS",
  ];
}
