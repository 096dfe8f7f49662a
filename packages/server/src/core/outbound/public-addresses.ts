/**
 * Which addresses are out on the Internet. Nothing that IANA lists as special-purpose is, nor multicast,
 * nor forms that were withdrawn. An IPv6 address that a gateway turns into an IPv4 address is judged
 * by that one, so that networks with IPv6 only can reach public hosts through their NAT64.
 *
 * https://www.iana.org/assignments/iana-ipv4-special-registry
 * https://www.iana.org/assignments/iana-ipv6-special-registry
 */
import { BlockList, isIP } from "node:net";

type Block = readonly [address: string, bits: number];

export const specialIpv4: readonly Block[] = [
  ["0.0.0.0", 8], // this network
  ["10.0.0.0", 8], // private use
  ["100.64.0.0", 10], // shared address space
  ["127.0.0.0", 8], // loopback
  ["169.254.0.0", 16], // link local, and the metadata of cloud machines
  ["172.16.0.0", 12], // private use
  ["192.0.0.0", 24], // IETF protocol assignments
  ["192.0.2.0", 24], // documentation
  ["192.31.196.0", 24], // AS112-v4
  ["192.52.193.0", 24], // AMT
  ["192.88.99.0", 24], // 6to4 relay anycast, withdrawn
  ["192.168.0.0", 16], // private use
  ["192.175.48.0", 24], // direct delegation AS112 service
  ["198.18.0.0", 15], // benchmarking
  ["198.51.100.0", 24], // documentation
  ["203.0.113.0", 24], // documentation
  ["224.0.0.0", 4], // multicast
  ["240.0.0.0", 4], // reserved, and limited broadcast
];

export const specialIpv6: readonly Block[] = [
  ["::", 96], // unspecified, loopback, and IPv4-compatible, withdrawn
  ["::ffff:0:0:0", 96], // IPv4-translated
  ["64:ff9b:1::", 48], // translation by a rule of the local network
  ["100::", 64], // discard only
  ["100:0:0:1::", 64], // dummy prefix
  ["2001::", 23], // IETF protocol assignments: Teredo, benchmarking, AMT, AS112, ORCHID, DRIP
  ["2001:db8::", 32], // documentation
  ["2620:4f:8000::", 48], // direct delegation AS112 service
  ["3fff::", 20], // documentation
  ["5f00::", 16], // segment routing
  ["fc00::", 7], // unique local
  ["fe80::", 10], // link local
  ["fec0::", 10], // site local, withdrawn
  ["ff00::", 8], // multicast
];

/** Blocks with an IPv4 address inside, and the group of 16 bits at which it begins. */
export const embeddedIpv4: readonly (readonly [...Block, group: number])[] = [
  ["::ffff:0:0", 96, 6], // IPv4-mapped
  ["64:ff9b::", 96, 6], // NAT64
  ["2002::", 16, 1], // 6to4
];

export function isPublicAddress(address: string): boolean {
  switch (isIP(address)) {
    case 4:
      return !closed.check(address, "ipv4");
    case 6:
      return isPublicIpv6(address.replace(/%.*$/, ""));
    default:
      return false;
  }
}

function isPublicIpv6(address: string): boolean {
  for (const { block, group } of carriers) {
    if (block.check(address, "ipv6")) return isPublicAddress(ipv4In(address, group));
  }
  return !closed.check(address, "ipv6");
}

function ipv4In(address: string, group: number): string {
  // A URL writes every form of an address in one way, without a dotted part.
  const [front = "", back = ""] = new URL(`http://[${address}]`).hostname.slice(1, -1).split("::");
  const before = front === "" ? [] : front.split(":");
  const after = back === "" ? [] : back.split(":");
  const zeros = new Array<string>(8 - before.length - after.length).fill("0");
  const groups = [...before, ...zeros, ...after].map((text) => Number.parseInt(text, 16));
  const [high = 0, low = 0] = groups.slice(group, group + 2);
  return [high >> 8, high & 0xff, low >> 8, low & 0xff].join(".");
}

function blockList(family: "ipv4" | "ipv6", blocks: readonly Block[], list = new BlockList()) {
  for (const [address, bits] of blocks) list.addSubnet(address, bits, family);
  return list;
}

const closed = blockList("ipv6", specialIpv6, blockList("ipv4", specialIpv4));
const carriers = embeddedIpv4.map(([address, bits, group]) => ({
  block: blockList("ipv6", [[address, bits]]),
  group,
}));
