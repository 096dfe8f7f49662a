/**
 * The network of a campaign. In one of its own, every machine is a network namespace with one address, and a bridge
 * joins them in one more namespace, in which the campaign itself runs: ways between machines can be cut in one
 * direction or both, and be made slow. On loopback every machine has an address, and nothing can be cut.
 */
import { spawnSync } from "node:child_process";
import { installProgram } from "../cli/programs.ts";

export interface Machine {
  readonly name: string;
  readonly namespace: string;
  readonly address: string;
}

const prefix = "10.77.7";
const hubAddress = `${prefix}.254`;

/** Where the machines of a campaign are, and how programs are run on them. */
export interface Network {
  machine(name: string): { readonly address: string };
  /** What runs a program on a machine. */
  inside(name: string): readonly string[];
  /** Undefined where nothing can be cut. */
  readonly ways: Ways | undefined;
}

/** The ways between machines. */
export interface Ways {
  /** `deaf` hears nothing of `silent` any more, while the other direction works. */
  cutOneWay(deaf: string, silent: string): void;
  cut(one: string, other: string): void;
  /** Nothing that goes to or comes from this port arrives at the machine. */
  cutPort(name: string, port: number): void;
  /** What the machine sends leaves at this rate, so that it queues up. */
  slow(name: string, kilobits: number): void;
  /** The machine loses this share of the packets that it is sent. */
  lose(name: string, share: number): void;
  /** All ways are as they were. */
  heal(): void;
}

export class NamespaceNetwork implements Network, Ways {
  readonly machines: readonly Machine[];
  readonly #hub: string;

  /** The network that `make` has made, for the process that runs in its middle. */
  constructor(hub: string, names: readonly string[]) {
    this.#hub = hub;
    this.machines = names.map((name, at) => ({
      name,
      namespace: `${hub}-${name}`,
      address: `${prefix}.${at + 1}`,
    }));
  }

  /** Why there can be none: this user may not make namespaces, or a program is missing. */
  static async missing(): Promise<string | undefined> {
    const program = await installProgram("iptables");
    if (program !== undefined) return program;
    const name = `codeq-try-${process.pid}`;
    const made = run(["netns", "add", name]);
    if (made !== undefined) return `network namespaces cannot be made: ${made}`;
    const inside = ["netns", "exec", name];
    const filtered = run([...inside, ...filter(hubAddress)]);
    run(["netns", "delete", name]);
    return filtered === undefined ? undefined : `packets cannot be filtered: ${filtered}`;
  }

  make(): void {
    const hub = this.#hub;
    must(["netns", "add", hub]);
    must(["-n", hub, "link", "set", "lo", "up"]);
    must(["-n", hub, "link", "add", "bridge", "type", "bridge"]);
    must(["-n", hub, "address", "add", `${hubAddress}/24`, "dev", "bridge"]);
    must(["-n", hub, "link", "set", "bridge", "up"]);
    for (const machine of this.machines) this.#join(machine);
  }

  remove(): void {
    for (const { namespace } of this.machines) run(["netns", "delete", namespace]);
    run(["netns", "delete", this.#hub]);
  }

  /** What runs a program in the middle of the network. */
  get middle(): readonly string[] {
    return ["ip", "netns", "exec", this.#hub];
  }

  machine(name: string): Machine {
    return this.machines.find((machine) => machine.name === name) as Machine;
  }

  inside(name: string): readonly string[] {
    return ["ip", "netns", "exec", this.machine(name).namespace];
  }

  get ways(): Ways {
    return this;
  }

  cutOneWay(deaf: string, silent: string): void {
    this.#on(deaf, filter(this.machine(silent).address));
  }

  cut(one: string, other: string): void {
    this.cutOneWay(one, other);
    this.cutOneWay(other, one);
  }

  cutPort(name: string, port: number): void {
    for (const end of ["--dport", "--sport"]) {
      const packets = ["-p", "tcp", end, String(port)];
      this.#on(name, ["iptables", "-A", "INPUT", ...packets, "-j", "DROP"]);
    }
  }

  slow(name: string, kilobits: number): void {
    const rate = ["tbf", "rate", `${kilobits}kbit`, "burst", "16kb", "latency", "400ms"];
    this.#on(name, ["tc", "qdisc", "replace", "dev", "eth0", "root", ...rate]);
  }

  lose(name: string, share: number): void {
    const some = ["-m", "statistic", "--mode", "random", "--probability", String(share)];
    this.#on(name, ["iptables", "-A", "INPUT", ...some, "-j", "DROP"]);
  }

  heal(): void {
    for (const { name, namespace } of this.machines) {
      this.#on(name, ["iptables", "-F", "INPUT"]);
      // Nothing to delete is fine.
      run(["netns", "exec", namespace, "tc", "qdisc", "delete", "dev", "eth0", "root"]);
    }
  }

  #on(name: string, command: readonly string[]): void {
    must(["netns", "exec", this.machine(name).namespace, ...command]);
  }

  #join({ name, namespace, address }: Machine): void {
    must(["netns", "add", namespace]);
    const near = `to-${name}`;
    const far = ["peer", "name", "eth0", "netns", namespace];
    must(["-n", this.#hub, "link", "add", near, "type", "veth", ...far]);
    must(["-n", this.#hub, "link", "set", near, "master", "bridge", "up"]);
    must(["-n", namespace, "address", "add", `${address}/24`, "dev", "eth0"]);
    must(["-n", namespace, "link", "set", "eth0", "up"]);
    must(["-n", namespace, "link", "set", "lo", "up"]);
  }
}

/** Linux takes every address below 127 for its own. Campaigns beside this one have other numbers. */
export class LoopbackNetwork implements Network {
  readonly ways = undefined;
  readonly #prefix: string;
  readonly #names: readonly string[];

  constructor(names: readonly string[]) {
    this.#names = names;
    this.#prefix = `127.${64 + (process.pid % 64)}.${(process.pid >> 6) % 256}`;
  }

  machine(name: string): { readonly address: string } {
    return { address: `${this.#prefix}.${this.#names.indexOf(name) + 1}` };
  }

  inside(): readonly string[] {
    return [];
  }
}

function filter(source: string): string[] {
  return ["iptables", "-A", "INPUT", "-s", source, "-j", "DROP"];
}

/** Runs `ip`; why it failed. */
function run(args: readonly string[]): string | undefined {
  const { status, stderr, error } = spawnSync("ip", args, { encoding: "utf8" });
  if (error !== undefined) return error.message;
  return status === 0 ? undefined : stderr.trim();
}

function must(args: readonly string[]): void {
  const problem = run(args);
  if (problem !== undefined) throw new Error(`ip ${args.join(" ")}: ${problem}`);
}
