/**
 * The certificates with which nodes and log servers know each other. All of them follow from the secret of the
 * cluster: every node makes the same CA and a certificate for itself, so no files have to be handed around. A node
 * without the secret cannot make one. Only as much of ASN.1 as that takes.
 */
import { createPrivateKey, createPublicKey, hkdfSync, type KeyObject, sign } from "node:crypto";
import { isIP, isIPv4 } from "node:net";
import type { ClusterSecrets } from "./peer-socket.ts";

export interface ClusterCertificate {
  /** All PEM. */
  readonly ca: string;
  readonly cert: string;
  readonly key: string;
}

/** Verifiers look a CA up by its name, so CAs of different secrets have different names. */
const caNameBytes = 8;
const seedBytes = 32;
/** Certificates follow from the secret, so they last as long as it does. */
const validity: readonly [from: string, to: string] = ["20240101000000Z", "20991231235959Z"];
const oids = {
  ed25519: "2b6570",
  commonName: "550403",
  subjectAltName: "551d11",
  basicConstraints: "551d13",
} as const;
/** A private key in PKCS #8, up to the seed. */
const pkcs8Head = Buffer.from("302e020100300506032b657004220420", "hex");

/**
 * `hosts` are the names and addresses at which others reach the node; certificates that follow from any of the
 * secrets are valid for it.
 */
export function clusterCertificate(
  secrets: ClusterSecrets,
  id: string,
  hosts: readonly string[],
): ClusterCertificate {
  const [own] = secrets;
  const key = keyFrom(own, `node ${id}`);
  const signer = authorityOf(own);
  const cert = certificate({ name: id, key, signer, extension: hostNames(hosts) });
  const ca = secrets.map((secret) => {
    const authority = authorityOf(secret);
    return certificate({ ...authority, signer: authority, extension: isCa() });
  });
  return { ca: ca.join(""), cert, key: key.export({ type: "pkcs8", format: "pem" }).toString() };
}

interface Authority {
  readonly name: string;
  readonly key: KeyObject;
}

function authorityOf(secret: string): Authority {
  const name = hkdfSync("sha256", secret, "codeq", "name of the ca", caNameBytes);
  return { name: `codeq cluster ${Buffer.from(name).toString("hex")}`, key: keyFrom(secret, "ca") };
}

function keyFrom(secret: string, purpose: string): KeyObject {
  const seed = hkdfSync("sha256", secret, "codeq", `certificate of the ${purpose}`, seedBytes);
  const der = Buffer.concat([pkcs8Head, Buffer.from(seed)]);
  return createPrivateKey({ key: der, format: "der", type: "pkcs8" });
}

function certificate(parts: {
  readonly name: string;
  readonly key: KeyObject;
  readonly signer: Authority;
  readonly extension: Buffer;
}): string {
  const { name, key, signer, extension } = parts;
  const publicKey = createPublicKey(key).export({ type: "spki", format: "der" });
  const algorithm = sequence(oid(oids.ed25519));
  // The serial number follows from the key, and its first bit is not a sign.
  const serial = Buffer.from([0x51, ...publicKey.subarray(-seedBytes, -seedBytes + 7)]);
  const body = sequence(
    node(0xa0, node(0x02, [2])),
    node(0x02, serial),
    algorithm,
    distinguishedName(signer.name),
    sequence(...validity.map((time) => node(0x18, Buffer.from(time)))),
    distinguishedName(name),
    publicKey,
    node(0xa3, sequence(extension)),
  );
  const signature = Buffer.concat([Buffer.from([0]), sign(null, body, signer.key)]);
  return pem(sequence(body, algorithm, node(0x03, signature)));
}

function isCa(): Buffer {
  const critical = node(0x01, [0xff]);
  return sequence(oid(oids.basicConstraints), critical, node(0x04, sequence(critical)));
}

function hostNames(hosts: readonly string[]): Buffer {
  const names = hosts.map((host) =>
    isIP(host) === 0 ? node(0x82, Buffer.from(host)) : node(0x87, addressBytes(host)),
  );
  return sequence(oid(oids.subjectAltName), node(0x04, sequence(...names)));
}

function addressBytes(address: string): Buffer {
  if (isIPv4(address)) return Buffer.from(address.split(".").map(Number));
  const [head = "", tail] = address.split("::");
  const groups = (text: string): string[] => (text === "" ? [] : text.split(":"));
  const before = groups(head);
  const after = groups(tail ?? "");
  const zeros = Array.from({ length: 8 - before.length - after.length }, () => "0");
  const all = tail === undefined ? before : [...before, ...zeros, ...after];
  return Buffer.from(all.map((group) => group.padStart(4, "0")).join(""), "hex");
}

function distinguishedName(name: string): Buffer {
  return sequence(node(0x31, sequence(oid(oids.commonName), node(0x0c, Buffer.from(name)))));
}

function oid(hex: string): Buffer {
  return node(0x06, Buffer.from(hex, "hex"));
}

function sequence(...parts: readonly Buffer[]): Buffer {
  return node(0x30, Buffer.concat(parts));
}

/** Tag, length, content; a length from 128 on has a byte in front that says how long it is itself. */
function node(tag: number, content: Uint8Array | readonly number[]): Buffer {
  const { length } = content;
  const bytes = length < 0x100 ? [length] : [length >> 8, length & 0xff];
  const size = length < 0x80 ? bytes : [0x80 + bytes.length, ...bytes];
  return Buffer.concat([Buffer.from([tag, ...size]), Buffer.from(content)]);
}

function pem(der: Buffer): string {
  const lines = der.toString("base64").match(/.{1,64}/g) ?? [];
  return ["-----BEGIN CERTIFICATE-----", ...lines, "-----END CERTIFICATE-----", ""].join("\n");
}
