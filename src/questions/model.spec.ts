import { ApiError, unreachable } from '../api/client';
import type { PermissionEvent, PermissionInfo } from '../api/events';
import { type AppStore, createStore } from '../state/app';
import { FakeServer } from '../testing/server';
import { request } from '../testing/events';
import { Questions } from './model';

type Answering = ConstructorParameters<typeof Questions>[1]['answer'];

function refused(code: string): ApiError {
  return new ApiError({ code, message: code, hint: '', retryable: false });
}

describe('the questions of other agents', () => {
  let server: FakeServer;
  let waits: PermissionInfo[];
  let refusal: ApiError | null;
  let store: AppStore;
  let questions: Questions;

  const publish = (event: PermissionEvent): void => server.publish({ permissions: true }, event);

  /** Waits until so many wait. */
  const count = (number: number): Promise<void> =>
    new Promise(resolve => {
      const look = (): void => {
        if (store.state.requests.length === number) {
          unsubscribe();
          // After all signals of the change were emitted.
          queueMicrotask(resolve);
        }
      };
      const unsubscribe = store.subscribe(look);
      look();
    });

  beforeEach(async () => {
    server = new FakeServer();
    server.answer = ({ number }) => {
      server.deliver(number, { reset: true });
      server.deliver(number, { id: 1, event: { kind: 'waiting', permissions: waits } });
    };
    store = createStore();
    waits = [request('a')];
    refusal = null;
    const answer: Answering = (id, outcome) => {
      if (refusal !== null) {
        return Promise.reject(refusal);
      }
      publish({ kind: 'settled', id, outcome });
      return Promise.resolve();
    };
    questions = new Questions(server.channel, { answer }, store);
    questions.follow();
    await count(1);
  });

  afterEach(() => questions.dispose());

  const pending = (): string[] => store.state.requests.map(({ id }) => id);

  it('are pending from their event to their end', async () => {
    publish({ kind: 'asked', permission: request('b') });
    await count(2);
    publish({ kind: 'settled', id: 'a', outcome: 'expired' });
    await count(1);
    expect(pending()).toEqual(['b']);
  });

  it('are removed when they are answered here or elsewhere', async () => {
    expect(await questions.answer(request('a'), 'once')).toBeNull();
    expect(pending()).toEqual([]);
    publish({ kind: 'asked', permission: request('b') });
    await count(1);
    refusal = refused('not_found');
    expect(await questions.answer(request('b'), 'once')).toBeNull();
    expect(pending()).toEqual([]);
  });

  it('stay pending if the answer did not reach the server', async () => {
    refusal = unreachable();
    expect((await questions.answer(request('a'), 'once'))?.code).toBe('unreachable');
    expect(pending()).toEqual(['a']);
  });

  it('are read again after a reconnect', async () => {
    server.cut();
    waits = [request('b'), request('c')];
    server.connect();
    await count(2);
    expect(pending()).toEqual(['b', 'c']);
  });
});
