import type { Attack } from "./attack.ts";
import { grpcAttacks } from "./grpc-attacks.ts";
import { httpAttacks } from "./http-attacks.ts";
import { tlsAttacks } from "./tls-attacks.ts";

export const attacks: readonly Attack[] = [...httpAttacks, ...grpcAttacks, ...tlsAttacks];

export function attackCalled(name: string): Attack {
  const found = attacks.find((attack) => attack.name === name);
  if (found === undefined) throw new Error(`there is no attack called ${name}`);
  return found;
}
