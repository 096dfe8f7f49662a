/** What must hold between the settings that are about connections. */
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
      "tlsClientCaFile: clients can show a certificate only where the server has one; set " +
        "tlsCertFile and tlsKeyFile",
    );
  }
  if (touched.has("tlsClientAuth") && !touched.has("tlsClientCaFile")) {
    problems.push(
      "tlsClientAuth: there is nothing to check certificates against; set tlsClientCaFile, or " +
        "remove tlsClientAuth",
    );
  }
  return problems;
}

export function connectionWarnings(settings: Settings): string[] {
  const exposed = exposedAddresses(settings);
  if (exposed.length === 0 || settings.insecure) return [];
  return [
    `NO TLS on ${exposed.join(", ")}: whoever sits on the way reads and changes tokens and ` +
      "payloads; set tlsCertFile and tlsKeyFile, or insecure: true behind a proxy that does TLS",
  ];
}
