/** The address of a peer without its port, and an IPv4 address as one. */
const withPort = /^(?:\[([^\]]+)\]|([^:]+)):\d+$/;

export function addressOf(peer: string): string {
  const [, bracketed, plain] = withPort.exec(peer) ?? [];
  return (bracketed ?? plain ?? peer).replace(/^::ffff:(?=\d+\.)/i, "");
}
