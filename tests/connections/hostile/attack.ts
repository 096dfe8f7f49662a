import type { Play } from "./crowd.ts";

export interface Attack {
  readonly name: string;
  /** For people. */
  readonly about: string;
  readonly port: "http" | "grpc";
  /** How many do it at once when it is measured. */
  readonly connections: number;
  /** It speaks TLS itself, so that it needs a server with TLS. */
  readonly isBelowTls?: true;
  /** The token is good: hostile clients may have one. */
  readonly play: (token: string) => Play;
}
