/**
 * What must and what must not compile. Nothing here runs: the types step fails when a line that has to
 * be an error is none, or the other way round.
 */
import { type Client, type Run, task } from "@codeq/client";
import { type } from "arktype";
import * as v from "valibot";
import { z } from "zod";

declare const client: Client;

type Same<A, B> =
  (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
function same<A, B>(_: Same<A, B>): void {}

const resize = task("resize", {
  input: z.object({ image: z.string(), width: z.number().default(320) }),
  output: z.object({ url: z.string(), at: z.string().transform((text) => new Date(text)) }),
  retry: { maxAttempts: 3, delay: (attempt) => attempt * 1000 },
  lease: "30s",
  timeout: "2m",
  priority: 5,
});

// What producers pass is what the schema accepts; results are what it gives back.
const run = await client.enqueue(resize, { image: "cat.png" });
same<typeof run, Run<{ url: string; at: Date }>>(true);
await client.enqueue(resize, { image: "cat.png", width: 100 }, { delay: "10s", priority: 9 });
await client.enqueueMany(resize, [{ input: { image: "cat.png" }, runAt: new Date(0) }]);
same<Awaited<ReturnType<typeof resize.run>>, { url: string; at: Date }>(true);
await resize.enqueue({ image: "cat.png", width: 100 }, { delay: "10s" });
// @ts-expect-error a field is missing
await resize.run({ width: 7 });
// @ts-expect-error no input at all
await resize.enqueue();
// @ts-expect-error a wrong type
await client.enqueue(resize, { image: 7 });
// @ts-expect-error a field is missing
await client.enqueue(resize, { width: 7 });
// @ts-expect-error no input at all
await client.enqueue(resize);
// @ts-expect-error the wrong type in one of many
await client.enqueueMany(resize, [{ input: { image: "cat.png" } }, { input: "cat.png" }]);
// @ts-expect-error not a duration
await client.enqueue(resize, { image: "cat.png" }, { delay: "ten seconds" });
// @ts-expect-error not an option
await client.enqueue(resize, { image: "cat.png" }, { retries: 3 });

// What handlers get is what the schema gives back; what they return is what it accepts.
resize.handle((input, ctx) => {
  same<typeof input, { image: string; width: number }>(true);
  same<typeof ctx.signal, AbortSignal>(true);
  return { url: input.image, at: "2026-01-01" };
});
resize.handle(async ({ image }) => ({ url: image, at: "2026-01-01" }));
// @ts-expect-error the output lacks a field
resize.handle(({ image }) => ({ url: image }));
// @ts-expect-error the output has the wrong type
resize.handle(async () => ({ url: 1, at: "2026-01-01" }));
// @ts-expect-error the input has no such field
resize.handle(({ height }) => ({ url: height, at: "" }));

// Without schemas the types are given.
const greet = task<{ name: string }, { text: string }>("greet", { lease: "10s" });
greet.handle(({ name }) => ({ text: name }));
same<Awaited<ReturnType<(typeof run)["result"]>>, { url: string; at: Date }>(true);
const greeting = await (await client.enqueue(greet, { name: "Ada" })).result({ timeout: 500 });
same<typeof greeting, { text: string }>(true);
// @ts-expect-error a wrong type
await client.enqueue(greet, { name: 1 });
// @ts-expect-error the output has the wrong type
greet.handle(() => ({ text: 1 }));

// Without anything it may be anything.
const anything = task("anything");
await client.enqueue(anything);
await client.enqueue(anything, [1, "two"]);
anything.handle((input) => {
  same<typeof input, unknown>(true);
});

// A task without input is enqueued without one.
const cleanUp = task<undefined, void>("clean-up");
await client.enqueue(cleanUp);
await client.enqueue(cleanUp, undefined, { delay: "1h" });
cleanUp.handle(async () => {});

// One of the two schemas.
const parse = task("parse", { input: v.object({ text: v.string() }) });
parse.handle(({ text }) => text.length);
// @ts-expect-error a wrong type
await client.enqueue(parse, { text: 1 });
const count = task("count", { output: type({ total: "number" }) });
count.handle(() => ({ total: 1 }));
// @ts-expect-error the output has the wrong type
count.handle(() => ({ total: "1" }));
const counted = await client.run(count, "id").result();
same<typeof counted, { total: number }>(true);

// Other makes of validators.
const square = task("square", { input: type({ side: "number" }), output: v.number() });
square.handle(({ side }) => side * side);
// @ts-expect-error a wrong type
await client.enqueue(square, { side: "2" });

// @ts-expect-error not a schema
task("wrong", { input: { name: "string" } });
// @ts-expect-error a retry is not a number
task("wrong", { retry: 3 });

// Workers take handlers, not tasks.
client.worker([resize.handle(() => ({ url: "", at: "" })), greet.handle(() => ({ text: "" }))]);
// @ts-expect-error a task is not a handler
client.worker([resize]);
const greeter = greet.handle(() => ({ text: "" }));
// @ts-expect-error not an option
client.worker(greeter, { concurency: 3 });
