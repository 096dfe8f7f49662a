/** A server for tests, in the process of the test. Needs `@codeq/server` beside `@codeq/client`. */
export { type FakeContext, fakeContext } from "./fake-context.ts";
export {
  type EnqueuedTask,
  type IdleOptions,
  type LosableResponse,
  type PostedWebhook,
  type TaskCounts,
  type TestServer,
  type TestServerOptions,
  testServer,
} from "./test-server.ts";
