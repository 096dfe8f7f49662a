/** The address of a peer without its port; an IPv4 address in IPv6 form becomes IPv4. */
const withPort = /^(?:\[([^\]]+)\]|([^:]+)):\d+$/;

export function addressOf(peer: string): string {
  const [, bracketed, plain] = withPort.exec(peer) ?? [];
  return (bracketed ?? plain ?? peer).replace(/^::ffff:(?=\d+\.)/i, "");
}
