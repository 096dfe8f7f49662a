/**
 * How a client that knows the address of the HTTP API finds the streams, and how it verifies that they
 * belong to the same server. The ports are set once they are open.
 */
export interface Endpoints {
  /** Another one with every start. */
  readonly instance: string;
  /** Undefined when the listener is off. */
  workerStreamPort: number | undefined;
  producerStreamPort: number | undefined;
}

export function newEndpoints(instance: string): Endpoints {
  return { instance, workerStreamPort: undefined, producerStreamPort: undefined };
}
