import type { PermissionEvent, PermissionInfo } from '../api/events';
import { request } from '../testing/events';
import { NEW_CHAT } from './app';
import { isInTranscript, reduceRequests as reduce } from './requests';

const asked = (permission: PermissionInfo): PermissionEvent => ({ kind: 'asked', permission });
const settled = (id: string): PermissionEvent => ({ kind: 'settled', id, outcome: 'deny' });
const all = (...events: PermissionEvent[]): readonly PermissionInfo[] => events.reduce(reduce, []);
const ids = (waiting: readonly PermissionInfo[]): string[] => waiting.map(each => each.id);

describe('the requests that wait', () => {
  it('are in the order of their events, until they are settled', () => {
    const waiting = all(asked(request('a')), asked(request('b')), asked(request('c')));
    expect(ids(waiting)).toEqual(['a', 'b', 'c']);
    expect(ids(reduce(waiting, settled('b')))).toEqual(['a', 'c']);
  });

  it('are replaced when a subscription starts', () => {
    const waiting = all(asked(request('a')), asked(request('b')));
    const snapshot: PermissionEvent = {
      kind: 'waiting',
      permissions: [request('b'), request('d')]
    };
    const after = reduce(waiting, snapshot);
    expect(ids(after)).toEqual(['b', 'd']);
    expect(after[0]).toBe(waiting[1]);
  });

  it('stay the same object without a change', () => {
    const waiting = all(asked(request('a')));
    expect(reduce(waiting, asked(request('a')))).toBe(waiting);
    expect(reduce(waiting, settled('gone'))).toBe(waiting);
    expect(reduce(waiting, { kind: 'later' } as unknown as PermissionEvent)).toBe(waiting);
  });

  it('are in the transcript of an open chat if its own turn asks', () => {
    const open = { 'chat 1': { ...NEW_CHAT, id: 'c' }, 'chat 2': NEW_CHAT };
    const isIn = (chat: string | null, within_call: boolean): boolean =>
      isInTranscript(request('a', { chat, within_call }), open);
    expect(isIn('c', true)).toBe(true);
    // Code in its kernel, a chat that is not open, and a client, which is in no new chat.
    expect([isIn('c', false), isIn('d', true), isIn(null, true)]).toEqual([false, false, false]);
  });
});
