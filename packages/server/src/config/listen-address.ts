/** The address of a listener, and whether other machines can reach it. */
import { BlockList, isIP } from "node:net";
import type { Settings } from "./settings.ts";

interface Address {
  readonly host: string;
  readonly port: number;
}

/** Reads `host:port` and `:port`, which takes the host of the HTTP API; undefined for `off`. */
export function streamAddressOf(text: string, httpHost: string): Address | undefined {
  if (text === "off") return undefined;
  const colon = text.lastIndexOf(":");
  const host = text.slice(0, colon).replace(/^\[|\]$/g, "") || httpHost;
  return { host, port: Number(text.slice(colon + 1)) };
}

/** The listeners without encryption that other machines can reach, as `host:port`. */
export function exposedAddresses(
  settings: Pick<
    Settings,
    "host" | "port" | "workerStreamAddr" | "producerStreamAddr" | "tlsCertFile"
  >,
): string[] {
  if (settings.tlsCertFile !== "") return [];
  const { host, port, workerStreamAddr, producerStreamAddr } = settings;
  const streams = [workerStreamAddr, producerStreamAddr].map((text) => streamAddressOf(text, host));
  return [{ host, port }, ...streams]
    .filter((address) => address !== undefined)
    .filter((address) => !isLoopback(address.host))
    .map(show);
}

/** A name other than localhost may lead anywhere. */
export function isLoopback(host: string): boolean {
  const family = isIP(host);
  if (family === 0) return host.toLowerCase() === "localhost";
  const loopback = new BlockList();
  loopback.addSubnet("127.0.0.0", 8, "ipv4");
  loopback.addAddress("::1", "ipv6");
  return loopback.check(host, family === 6 ? "ipv6" : "ipv4");
}

function show({ host, port }: Address): string {
  return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
}
