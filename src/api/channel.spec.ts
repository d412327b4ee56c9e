import { FakeServer, type ISubscribed } from '../testing/server';
import type { IFollower } from './channel';
import { type ApiError, unreachable } from './client';

const TOPIC = { chat: 'c' };

/** Run all pending microtasks. */
async function settled(): Promise<void> {
  for (let step = 0; step < 20; step++) {
    await Promise.resolve();
  }
}

/** A follower that records its calls. */
function follower(
  some: Partial<IFollower<number>> = {}
): IFollower<number> & { received: unknown[] } {
  const received: unknown[] = [];
  return {
    received,
    live: isReset => void received.push(isReset ? 'reset' : 'live'),
    take: event => void received.push(event),
    lost: () => void received.push('lost'),
    failed: error => void received.push(error.problem.code),
    ...some
  };
}

describe('the channel', () => {
  let server: FakeServer;

  beforeEach(() => {
    jest.useFakeTimers();
    server = new FakeServer();
  });

  afterEach(() => jest.useRealTimers());

  it('resumes after the last event when the connection is back', async () => {
    const found = follower();
    server.channel.subscribe(TOPIC, found);
    await settled();
    server.publish(TOPIC, 1, 1);
    await settled();
    server.cut();
    server.publish(TOPIC, 2, 2);
    server.connect();
    await settled();
    expect(server.subscribed.map(({ after }) => after)).toEqual([null, 1]);
    expect(found.received).toEqual(['live', 1, 'lost', 'live']);
  });

  it('ignores messages for a former subscription', async () => {
    const found = follower();
    server.channel.subscribe(TOPIC, found);
    await settled();
    const [first] = server.subscribed as [ISubscribed];
    server.cut();
    server.connect();
    await settled();
    server.deliver(first.number, { id: 9, event: 9 });
    await settled();
    expect(found.received).toEqual(['live', 'lost', 'live']);
  });

  it('starts again if the server does not know what was missed', async () => {
    const found = follower();
    server.channel.subscribe(TOPIC, found);
    await settled();
    server.publish(TOPIC, 1, 1);
    await settled();
    server.answer = ({ number }) => {
      server.deliver(number, { reset: true });
      server.deliver(number, { id: 1, event: 7 });
    };
    server.cut();
    server.connect();
    await settled();
    server.cut();
    server.connect();
    await settled();
    expect(server.subscribed.at(-1)?.after).toBe(1);
    expect(found.received.slice(3)).toEqual(['reset', 7, 'lost', 'reset', 7]);
  });

  it('retries after a temporary error, and stops after a permanent one', async () => {
    const found = follower();
    server.channel.subscribe(TOPIC, found);
    await settled();
    server.fail(1, { code: 'busy' });
    await settled();
    expect(server.subscribed).toHaveLength(1);
    jest.advanceTimersByTime(1000);
    await settled();
    expect(server.subscribed).toHaveLength(2);
    server.fail(server.subscribed[1]?.number ?? 0, { code: 'not_found', retryable: false });
    await settled();
    jest.advanceTimersByTime(60_000);
    server.cut();
    server.connect();
    await settled();
    expect(server.subscribed).toHaveLength(2);
    expect(found.received).toEqual(['live', 'lost', 'live', 'not_found']);
  });

  it.each([
    ['disk_full', 507, true],
    ['state_unavailable', 503, true],
    ['internal_error', 500, true],
    ['path_refused', 403, false],
    ['tool_error', 400, false]
  ])('decides by the status of an error whether %s passes', async (code, status, passes) => {
    const found = follower();
    server.channel.subscribe(TOPIC, found);
    await settled();
    server.fail(1, { code, retryable: false }, status);
    await settled();
    await jest.advanceTimersByTimeAsync(60_000);
    expect(found.received).toEqual(passes ? ['live', 'lost', 'live'] : ['live', code]);
  });

  it('asks again for an event that could not be handled', async () => {
    const refusals: ApiError[] = [unreachable()];
    const taken: number[] = [];
    const take = (event: number): Promise<void> => {
      const refusal = refusals.shift();
      return refusal === undefined
        ? Promise.resolve(void taken.push(event))
        : Promise.reject(refusal);
    };
    server.channel.subscribe(TOPIC, follower({ take }));
    await settled();
    server.publish(TOPIC, 1, 1);
    await settled();
    jest.advanceTimersByTime(1000);
    await settled();
    // The event was not handled: it is requested again.
    expect(server.subscribed.at(-1)?.after).toBeNull();
    server.publish(TOPIC, 1, 1);
    await settled();
    expect(taken).toEqual([1]);
  });

  it('does not resume a disposed subscription', async () => {
    const found = follower();
    const following = server.channel.subscribe(TOPIC, found);
    await settled();
    following.dispose();
    expect(server.open.size).toBe(0);
    server.cut();
    server.connect();
    await settled();
    expect(server.subscribed).toHaveLength(1);
    expect(found.received).toEqual(['live']);
  });

  it('is not subscribed twice if the connection opens during a preparation', async () => {
    let finish = (): void => undefined;
    const prepare = (): Promise<void> => new Promise(resolve => (finish = resolve));
    server.isOpen = false;
    server.channel.subscribe(TOPIC, follower({ prepare }));
    await settled();
    const first = finish;
    server.connect();
    first();
    await settled();
    finish();
    await settled();
    expect(server.subscribed).toHaveLength(1);
  });

  it('loses and doubles nothing, whenever the connection is lost', async () => {
    let seed = 7;
    const random = (below: number): number => (seed = (seed * 16807) % 2147483647) % below;
    for (let round = 0; round < 50; round++) {
      const log: number[] = [];
      server = new FakeServer();
      server.answer = ({ number, after }) => {
        server.deliver(number, { live: true });
        const known = typeof after === 'number' ? after : 0;
        log.slice(known).forEach(event => server.deliver(number, { id: event, event }));
      };
      const taken: number[] = [];
      const slow = async (event: number): Promise<void> => {
        for (let step = random(4); step > 0; step--) {
          await Promise.resolve();
        }
        taken.push(event);
      };
      server.channel.subscribe(TOPIC, { take: slow });
      for (let step = 0; step < 40; step++) {
        const what = random(5);
        if (what === 0) {
          server.cut();
        } else if (what === 1) {
          server.connect();
        } else if (what === 2) {
          await Promise.resolve();
        } else {
          log.push(log.length + 1);
          server.publish(TOPIC, log.length, log.length);
        }
      }
      server.connect();
      for (let step = 0; step < 20; step++) {
        await settled();
      }
      expect(taken).toEqual(log);
    }
  });
});
