/** Loaded into nodes to show that a campaign can fail: records are published without the compare. */
import { headers, type MsgHdrs } from "@nats-io/transport-node";

const prototype = Object.getPrototypeOf(headers()) as MsgHdrs;
const { set } = prototype;
prototype.set = function (this: MsgHdrs, name, ...rest) {
  if (name !== "Nats-Expected-Last-Sequence") set.call(this, name, ...rest);
};
