/**
 * How a client that knows the address of the HTTP API finds the streams, and how it tells that what
 * it found is the same server. The ports are filled in once they are open.
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
