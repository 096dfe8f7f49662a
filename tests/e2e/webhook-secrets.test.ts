/** A tenant's own secret signs its webhooks, in a server of one shard and in the threads of three. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { verifyWebhook, type WebhookRequest } from "@codeq/client";
import { ApiClient, type TaskJson } from "./api-client.ts";
import { startServer, temporaryDirectory } from "./server-process.ts";

const secretOf = (fill: number): string => `whsec_${Buffer.alloc(32, fill).toString("base64")}`;
const own = secretOf(1);

for (const shards of ["1", "3"]) {
  test(`with ${shards} shards a webhook is signed with the secret of its tenant`, async (t) => {
    const directory = temporaryDirectory();
    t.after(() => directory.dispose());
    const { promise: received, resolve } = Promise.withResolvers<WebhookRequest>();
    const receiver = createServer(async (request, response) => {
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk as Buffer);
      resolve({ body: Buffer.concat(chunks), headers: request.headers });
      response.end();
    });
    receiver.listen(0, "127.0.0.1");
    await once(receiver, "listening");
    t.after(() => receiver.close());
    const tenants = { "dev-tenant": own };
    const server = await startServer({
      dataDir: directory.path,
      env: {
        CODEQ_SHARDS: shards,
        CODEQ_WEBHOOK_SECRETS: JSON.stringify({ default: secretOf(2), tenants }),
        CODEQ_WEBHOOK_ALLOW_PRIVATE_NETWORKS: "true",
      },
    });
    const api = new ApiClient(server.port, 1);
    t.after(async () => {
      api.close();
      await server.kill();
    });
    const webhook = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`;
    const created = await api.create({ command: "greet", payload: 1, webhook });
    const { id } = JSON.parse(created.text) as TaskJson;
    assert.equal((await api.post("/tasks/claim", { waitSeconds: 10 })).status, 200);
    await api.post(`/tasks/${id}/result`, { status: "COMPLETED", result: {} });
    const request = await received;
    assert.equal(verifyWebhook(request, { secret: own }).taskId, id);
    assert.throws(() => verifyWebhook(request, { secret: secretOf(2) }), {
      code: "webhook_refused",
    });
  });
}
