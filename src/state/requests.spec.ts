import type { PermissionEvent, PermissionInfo } from '../api/events';
import { request } from '../testing/events';
import { reduceRequests as reduce } from './requests';

const asked = (permission: PermissionInfo): PermissionEvent => ({ kind: 'asked', permission });
const settled = (id: string): PermissionEvent => ({ kind: 'settled', id, outcome: 'deny' });
const all = (...events: PermissionEvent[]): readonly PermissionInfo[] => events.reduce(reduce, []);
const ids = (waiting: readonly PermissionInfo[]): string[] => waiting.map(each => each.id);

describe('the requests that wait', () => {
  it('come in the order in which they were asked, and go when they are settled', () => {
    const waiting = all(asked(request('a')), asked(request('b')), asked(request('c')));
    expect(ids(waiting)).toEqual(['a', 'b', 'c']);
    expect(ids(reduce(waiting, settled('b')))).toEqual(['a', 'c']);
  });

  it('are those of the beginning of a line, whatever was known before', () => {
    const waiting = all(asked(request('a')), asked(request('b')));
    const line: PermissionEvent = { kind: 'waiting', permissions: [request('b'), request('d')] };
    const after = reduce(waiting, line);
    expect(ids(after)).toEqual(['b', 'd']);
    expect(after[0]).toBe(waiting[1]);
  });

  it('stay as they are where nothing is new', () => {
    const waiting = all(asked(request('a')));
    expect(reduce(waiting, asked(request('a')))).toBe(waiting);
    expect(reduce(waiting, settled('gone'))).toBe(waiting);
    expect(reduce(waiting, { kind: 'later' } as unknown as PermissionEvent)).toBe(waiting);
  });

  it('leave out what a chat asks where it is shown', () => {
    const inChat = request('a', { face: 'chat', within_call: true });
    const inKernel = request('b', { face: 'chat' });
    const inClient = request('c', { within_call: true });
    expect(ids(all(asked(inChat), asked(inKernel), asked(inClient)))).toEqual(['b', 'c']);
    const line: PermissionEvent = { kind: 'waiting', permissions: [inChat, inKernel, inClient] };
    expect(ids(all(line))).toEqual(['b', 'c']);
  });
});
