/** The memory that the server may use, and how much of it callers can make the server hold. */
import { totalmem } from "node:os";
import type { Config } from "./settings.ts";

/** Share of the memory for unauthenticated gRPC calls, on each of two listeners. */
const unauthenticatedShare = 1 / 16;
/** Measured: a call takes 28 to 40 KiB, most of it in Node's HTTP/2. */
const callBytes = 32 * 1024;
const unauthenticatedCallsMax = 10_000;

/** Share of the memory for connections without an authenticated caller, on each of three listeners. */
const anonymousShare = 1 / 8;
/** Measured: with TLS, most of what such a client can make the server hold is that of the connection. */
const connectionBytes = 64 * 1024;

/** Share of the memory for TLS handshakes that are not finished, of which each may take as much as a first message. */
const handshakeShare = 1 / 16;
const handshakeBytes = 128 * 1024;
const handshakesMax = 4096;

/** Share of the memory for what authenticated callers have sent and what is not answered yet. */
const inFlightShare = 1 / 8;
/** Share of that for one tenant. */
const tenantShare = 1 / 2;
const earlyShare = 1 / 32;
const unreadShare = 1 / 8;
const pipelinedShare = 1 / 32;
/** The memory of a waiting request with its headers. */
const requestBytes = 8 * 1024;

/** The setting, or else the smaller of the memory limit of the container and the memory of the machine. */
export function memoryOf({ memoryBytes }: Pick<Config, "memoryBytes">): number {
  if (memoryBytes > 0) return memoryBytes;
  const machine = totalmem();
  return Math.min(machine, process.constrainedMemory() || machine);
}

/** How many calls without an authenticated caller a gRPC listener keeps open. */
export function unauthenticatedCallsOf(memoryBytes: number): number {
  const fitting = Math.floor((memoryBytes * unauthenticatedShare) / callBytes);
  return Math.min(unauthenticatedCallsMax, fitting);
}

/** How many connections without an authenticated caller a listener keeps open. */
export function anonymousConnectionsOf(memoryBytes: number): number {
  return Math.floor((memoryBytes * anonymousShare) / connectionBytes);
}

/** How many TLS handshakes may be unfinished on all listeners together. */
export function handshakesOf(memoryBytes: number): number {
  return Math.min(handshakesMax, Math.floor((memoryBytes * handshakeShare) / handshakeBytes));
}

/** How much may arrive behind HTTP requests that are being answered; few clients send anything there. */
export function earlyBytesOf(memoryBytes: number): number {
  return Math.floor(memoryBytes * earlyShare);
}

/** How many requests may wait for earlier ones of their connections. */
export function pipelinedOf(memoryBytes: number): number {
  return Math.floor((memoryBytes * pipelinedShare) / requestBytes);
}

/** How much answers may take that HTTP clients have not read. */
export function unreadBytesOf(memoryBytes: number): number {
  return Math.floor(memoryBytes * unreadShare);
}

/** How much memory the input of authenticated callers may take: of all tenants, and of one. */
export function inFlightOf(config: Pick<Config, "memoryBytes" | "bodyBytesMax">): {
  readonly bytesMax: number;
  readonly tenantBytesMax: number;
} {
  // The largest body has to fit, also while another tenant sends one.
  const bytesMax = Math.max(memoryOf(config) * inFlightShare, config.bodyBytesMax * 4);
  return { bytesMax: Math.floor(bytesMax), tenantBytesMax: Math.floor(bytesMax * tenantShare) };
}
