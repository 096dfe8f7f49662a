import assert from "node:assert/strict";
import test from "node:test";
import { embeddedIpv4, isPublicAddress, specialIpv4, specialIpv6 } from "./public-addresses.ts";

/** Every row of the registries of IANA: the first and the last address, written out by hand. */
const registry: Readonly<Record<string, readonly [string, string]>> = {
  "0.0.0.0/8": ["0.0.0.0", "0.255.255.255"],
  "10.0.0.0/8": ["10.0.0.0", "10.255.255.255"],
  "100.64.0.0/10": ["100.64.0.0", "100.127.255.255"],
  "127.0.0.0/8": ["127.0.0.0", "127.255.255.255"],
  "169.254.0.0/16": ["169.254.0.0", "169.254.255.255"],
  "172.16.0.0/12": ["172.16.0.0", "172.31.255.255"],
  "192.0.0.0/24": ["192.0.0.0", "192.0.0.255"],
  "192.0.2.0/24": ["192.0.2.0", "192.0.2.255"],
  "192.31.196.0/24": ["192.31.196.0", "192.31.196.255"],
  "192.52.193.0/24": ["192.52.193.0", "192.52.193.255"],
  "192.88.99.0/24": ["192.88.99.0", "192.88.99.255"],
  "192.168.0.0/16": ["192.168.0.0", "192.168.255.255"],
  "192.175.48.0/24": ["192.175.48.0", "192.175.48.255"],
  "198.18.0.0/15": ["198.18.0.0", "198.19.255.255"],
  "198.51.100.0/24": ["198.51.100.0", "198.51.100.255"],
  "203.0.113.0/24": ["203.0.113.0", "203.0.113.255"],
  "224.0.0.0/4": ["224.0.0.0", "239.255.255.255"],
  "240.0.0.0/4": ["240.0.0.0", "255.255.255.255"],
  "::/96": ["::", "::255.255.255.255"],
  "::1/128": ["::1", "0:0:0:0:0:0:0:1"],
  "::ffff:0:0:0/96": ["::ffff:0:0:0", "::ffff:0:8.8.8.8"],
  "64:ff9b:1::/48": ["64:ff9b:1::", "64:ff9b:1:ffff:ffff:ffff:ffff:ffff"],
  "100::/64": ["100::", "100::ffff:ffff:ffff:ffff"],
  "100:0:0:1::/64": ["100:0:0:1::", "100::1:ffff:ffff:ffff:ffff"],
  "2001::/23": ["2001::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff"],
  "2001::/32": ["2001::1", "2001:0:ffff:ffff:ffff:ffff:ffff:ffff"],
  "2001:2::/48": ["2001:2::", "2001:2:0:ffff:ffff:ffff:ffff:ffff"],
  "2001:10::/28": ["2001:10::", "2001:1f:ffff::"],
  "2001:20::/28": ["2001:20::", "2001:2f:ffff::"],
  "2001:db8::/32": ["2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"],
  "2620:4f:8000::/48": ["2620:4f:8000::", "2620:4f:8000:ffff:ffff:ffff:ffff:ffff"],
  "3fff::/20": ["3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff"],
  "5f00::/16": ["5f00::", "5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff"],
  "fc00::/7": ["fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"],
  "fe80::/10": ["fe80::1%eth0", "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff"],
  "fec0::/10": ["fec0::", "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"],
  "ff00::/8": ["ff00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"],
};

for (const [block, addresses] of Object.entries(registry)) {
  test(`${block} is not public`, () => {
    for (const address of addresses) assert.equal(isPublicAddress(address), false, address);
  });
}

test("every block of the table is among those that are tested", () => {
  for (const [address, bits] of [...specialIpv4, ...specialIpv6]) {
    assert.ok(`${address}/${bits}` in registry, `${address}/${bits}`);
  }
});

test("the addresses next to the blocks are public", () => {
  const near = [
    "1.0.0.0",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "126.0.0.1",
  ];
  const more = ["128.0.0.0", "169.253.255.255", "172.15.255.255", "172.32.0.0", "192.0.1.0"];
  const last = ["192.167.255.255", "198.17.255.255", "198.20.0.0", "223.255.255.255", "8.8.8.8"];
  const ipv6 = ["2001:200::", "2606:4700::1111", "2a00:1450::", "3fff:1000::", "2003::1", "fbff::"];
  for (const address of [...near, ...more, ...last, ...ipv6]) {
    assert.equal(isPublicAddress(address), true, address);
  }
});

test("an IPv6 address that becomes an IPv4 address is judged by it", () => {
  const forms: Readonly<Record<string, (ipv4: string, hex: string) => string[]>> = {
    "::ffff:0:0": (ipv4, hex) => [`::ffff:${ipv4}`, `::ffff:${hex}`, `0:0:0:0:0:ffff:${hex}`],
    "64:ff9b::": (ipv4, hex) => [`64:ff9b::${ipv4}`, `64:ff9b::${hex}`, `64:ff9b:0:0:0:0:${hex}`],
    "2002::": (_, hex) => [`2002:${hex}::1`, `2002:${hex}:0:0:0:1:1`],
  };
  assert.deepEqual(
    Object.keys(forms),
    embeddedIpv4.map(([address]) => address),
  );
  for (const make of Object.values(forms)) {
    for (const address of make("127.0.0.1", "7f00:1")) {
      assert.equal(isPublicAddress(address), false, address);
    }
    for (const address of make("10.0.0.0", "a00:0")) {
      assert.equal(isPublicAddress(address), false, address);
    }
    for (const address of make("169.254.169.254", "a9fe:a9fe")) {
      assert.equal(isPublicAddress(address), false, address);
    }
    for (const address of make("8.8.4.4", "808:404")) {
      assert.equal(isPublicAddress(address), true, address);
    }
  }
});

test("what is not an address is not public", () => {
  for (const text of ["", "localhost", "1.2.3", "::g", "[::1]"]) {
    assert.equal(isPublicAddress(text), false, text);
  }
});
