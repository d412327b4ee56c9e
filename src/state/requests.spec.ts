import type { PermissionEvent, PermissionInfo } from '../api/events';
import { request } from '../testing/events';
import { reduceRequests as reduce } from './requests';

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

  it('leave out requests of the panel’s chats', () => {
    const inChat = request('a', { interface: 'chat', within_call: true });
    const inKernel = request('b', { interface: 'chat' });
    const inClient = request('c', { within_call: true });
    expect(ids(all(asked(inChat), asked(inKernel), asked(inClient)))).toEqual(['b', 'c']);
    const snapshot: PermissionEvent = {
      kind: 'waiting',
      permissions: [inChat, inKernel, inClient]
    };
    expect(ids(all(snapshot))).toEqual(['b', 'c']);
  });
});
