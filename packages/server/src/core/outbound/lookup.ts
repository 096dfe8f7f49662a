/**
 * Names of endpoints to addresses. The lookup of the system takes a thread of the pool that the storage
 * syncs with, for as long as a name server is silent; tenants choose the names, so a few silent ones could
 * stop every write. Names are therefore asked for without threads, within a bounded time. Only names that
 * the name server does not know, which may be in the hosts file or a search domain, go to the system,
 * each once and never more than a few at a time.
 */
import { type LookupAddress, lookup } from "node:dns";
import { Resolver } from "node:dns/promises";
import { isIP, type LookupFunction } from "node:net";
import { promisify } from "node:util";

/** Two of the eight threads, which the storage uses too. */
const systemLookupsMax = 2;
const answerMs = 2000;

const lookupBySystem = promisify(lookup) as (
  name: string,
  options: { readonly all: true },
) => Promise<LookupAddress[]>;

export interface LookupOptions {
  /** Whether a connection to the address is allowed. */
  readonly isAllowed: (address: string) => boolean;
  /** Default: those of the system. */
  readonly servers?: readonly string[];
}

/** A connection to the host is not allowed. */
export class ForbiddenAddressError extends Error {
  override readonly name = "ForbiddenAddressError";

  constructor(host: string) {
    super(
      `${host} is a loopback or private address; set webhookAllowPrivateNetworks to allow webhooks to it`,
    );
  }
}

/** Hands on only addresses that are allowed, which are then the ones connected to. */
export function createLookup({ isAllowed, servers }: LookupOptions): LookupFunction {
  const resolver = new Resolver({ timeout: answerMs, tries: 1 });
  if (servers !== undefined) resolver.setServers(servers);
  const system = new SystemLookups();

  const addressesOf = async (name: string): Promise<LookupAddress[]> => {
    if (!name.includes(".")) return system.of(name);
    const asked = [resolver.resolve4(name), resolver.resolve6(name)] as const;
    const [four, six] = await Promise.allSettled(asked);
    const addresses = [...found(four, 4), ...found(six, 6)];
    if (addresses.length > 0) return addresses;
    const failures = [four, six].filter((each) => each.status === "rejected");
    if (failures.some(({ reason }) => isSilence(reason))) throw failures[0]?.reason;
    return system.of(name);
  };

  return (name, options, callback) => {
    const family = isIP(name);
    const asked = family === 0 ? addressesOf(name) : Promise.resolve([{ address: name, family }]);
    asked.then(
      (addresses) => {
        const open = addresses.filter(({ address }) => isAllowed(address));
        const [first] = open;
        if (first === undefined) callback(new ForbiddenAddressError(name), "");
        else if (options.all) callback(null, open);
        else callback(null, first.address, first.family);
      },
      (error: NodeJS.ErrnoException) => callback(error, ""),
    );
  };
}

/** Callers of one name share a lookup; beyond the most at a time they wait for their turn. */
class SystemLookups {
  readonly #byName: Map<string, Promise<LookupAddress[]>> = new Map();
  readonly #turns: (() => void)[] = [];
  #busy = 0;

  of(name: string): Promise<LookupAddress[]> {
    const shared = this.#byName.get(name);
    if (shared !== undefined) return shared;
    const lookedUp = this.#lookUp(name).finally(() => this.#byName.delete(name));
    this.#byName.set(name, lookedUp);
    return lookedUp;
  }

  async #lookUp(name: string): Promise<LookupAddress[]> {
    if (this.#busy >= systemLookupsMax) {
      await new Promise<void>((resolve) => this.#turns.push(resolve));
    }
    this.#busy += 1;
    try {
      return await lookupBySystem(name, { all: true });
    } finally {
      this.#busy -= 1;
      this.#turns.shift()?.();
    }
  }
}

function found(settled: PromiseSettledResult<string[]>, family: 4 | 6): LookupAddress[] {
  const addresses = settled.status === "rejected" ? [] : settled.value;
  return addresses.map((address) => ({ address, family }));
}

/** The name server was asked and did not answer in time, or could not find out. */
function isSilence(reason: unknown): boolean {
  const { code } = reason as NodeJS.ErrnoException;
  return code === "ETIMEOUT" || code === "ESERVFAIL" || code === "ECANCELLED";
}
