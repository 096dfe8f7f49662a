/** What hostile clients do to a port with TLS before there is a connection. */
import type { Attack } from "./attack.ts";

const handshake = 0x16;
const clientHello = 1;
const recordBytesMax = 16_384;
/** The largest that OpenSSL takes. */
const helloBytes = 131_000;

/** The records of a first message; one byte is missing. */
function unfinishedHello(): Buffer {
  const message = Buffer.alloc(helloBytes - 1);
  message.writeUInt8(clientHello, 0);
  message.writeUIntBE(helloBytes - 4, 1, 3);
  const records: Buffer[] = [];
  for (let at = 0; at < message.length; at += recordBytesMax) {
    const body = message.subarray(at, at + recordBytesMax);
    records.push(Buffer.from([handshake, 3, 1, body.length >> 8, body.length & 0xff]), body);
  }
  return Buffer.concat(records);
}

export const tlsAttacks: readonly Attack[] = [
  {
    name: "tls-half-hellos",
    about: "nearly all of a first message of 128 KiB in a TLS handshake",
    port: "http",
    isBelowTls: true,
    connections: 1000,
    play: () => (socket) => void socket.write(unfinishedHello()),
  },
];
