/**
 * X.509 certificates for tests, made on the spot so that no key is ever kept: a CA, certificates that
 * it signs, and ones that are wrong in a single way. Only as much of ASN.1 as that takes.
 */
import {
  createPrivateKey,
  generateKeyPairSync,
  type KeyObject,
  randomBytes,
  sign,
} from "node:crypto";

export interface CertificateOptions {
  readonly name: string;
  readonly validFromMs: number;
  readonly validToMs: number;
  /** Undefined for one that signs itself. */
  readonly issuer?: TestCertificate;
  readonly isCa?: boolean;
  /** Without them there is no subjectAltName. */
  readonly dnsNames?: readonly string[];
  readonly addresses?: readonly string[];
  /** Bits of an RSA key; a key on P-256 when it is not given. */
  readonly rsaBits?: number;
}

export interface TestCertificate {
  readonly name: string;
  /** PEM. */
  readonly cert: string;
  /** PEM, PKCS #8. */
  readonly key: string;
}

export function makeCertificate(options: CertificateOptions): TestCertificate {
  const { name, issuer, rsaBits } = options;
  const pair =
    rsaBits === undefined
      ? generateKeyPairSync("ec", { namedCurve: "P-256" })
      : generateKeyPairSync("rsa", { modulusLength: rsaBits });
  const signer = issuer === undefined ? pair.privateKey : createPrivateKey(issuer.key);
  const algorithm = sequence(
    oid(signer.asymmetricKeyType === "rsa" ? sha256WithRsa : sha256WithEc),
  );
  const body = sequence(
    tagged(0, integer([2])),
    // The first bit would be the sign, and zeros before the number are not allowed.
    integer([0x51, ...randomBytes(7)]),
    algorithm,
    distinguishedName(issuer?.name ?? name),
    sequence(time(options.validFromMs), time(options.validToMs)),
    distinguishedName(name),
    pair.publicKey.export({ type: "spki", format: "der" }),
    tagged(3, sequence(...extensions(options))),
  );
  const certificate = sequence(body, algorithm, bitString(sign("sha256", body, signer)));
  return { name, cert: pem(certificate), key: exportKey(pair.privateKey) };
}

const sha256WithEc = "2a8648ce3d040302";
const sha256WithRsa = "2a864886f70d01010b";
const commonName = "550403";
const subjectAltName = "551d11";
const basicConstraints = "551d13";

function extensions({ isCa = false, dnsNames = [], addresses = [] }: CertificateOptions): Buffer[] {
  const found = [extension(basicConstraints, isCa ? sequence(node(0x01, [0xff])) : sequence())];
  const names = [
    ...dnsNames.map((each) => node(0x82, Buffer.from(each))),
    ...addresses.map((each) => node(0x87, each.split(".").map(Number))),
  ];
  if (names.length > 0) found.push(extension(subjectAltName, sequence(...names)));
  return found;
}

function extension(id: string, value: Buffer): Buffer {
  return sequence(oid(id), node(0x04, value));
}

function distinguishedName(name: string): Buffer {
  return sequence(node(0x31, sequence(oid(commonName), node(0x0c, Buffer.from(name)))));
}

function time(ms: number): Buffer {
  const text = new Date(ms).toISOString().replace(/[-:T]|\.\d+/g, "");
  return node(0x18, Buffer.from(text));
}

function integer(bytes: readonly number[]): Buffer {
  return node(0x02, bytes);
}

function oid(hex: string): Buffer {
  return node(0x06, Buffer.from(hex, "hex"));
}

function bitString(bytes: Buffer): Buffer {
  return node(0x03, Buffer.concat([Buffer.from([0]), bytes]));
}

function sequence(...parts: readonly Buffer[]): Buffer {
  return node(0x30, Buffer.concat(parts));
}

function tagged(number: number, content: Buffer): Buffer {
  return node(0xa0 + number, content);
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

function exportKey(key: KeyObject): string {
  return key.export({ type: "pkcs8", format: "pem" }).toString();
}
