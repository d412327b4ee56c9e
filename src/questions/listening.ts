import { keepLine } from '../api/line';
import type { ILines } from '../api/lines';
import type { PermissionsApi } from '../api/permissions';
import type { PermissionEvent, PermissionInfo } from '../api/events';
import { reduce } from './waiting';

/** Hears of the requests until `signal` aborts. */
export type Listen = (take: (event: PermissionEvent) => void, signal: AbortSignal) => Promise<void>;

/** A page says that it listens: whoever has the line tells it what waits. */
interface IJoined {
  kind: 'joined';
}

/** By a line of the page's own. */
export function listening(routes: Pick<PermissionsApi, 'follow'>, lines: ILines): Listen {
  return async (take, signal) => {
    await keepLine<PermissionEvent>(
      lines,
      {
        need: () => 'first',
        open: line => routes.follow(line),
        take: event => {
          take(event);
          return true;
        }
      },
      signal
    );
  };
}

/**
 * By one line for all pages of the browser: it allows six to a server, of which the pages in sight
 * need more for what else they follow.
 *
 * The page that holds a lock has the line and tells the others; when it goes, or nobody looks at it
 * any more, the next one gets the lock, and its line begins with what waits. Where pages have no
 * locks (without TLS, from another machine), each has a line of its own.
 *
 * @param listen - by a line of the page's own.
 * @param name - the same in all pages that hear the same.
 */
export function sharing(listen: Listen, name: string): Listen {
  if (!('locks' in navigator)) {
    return listen;
  }
  return async (take, signal) => {
    const channel = new BroadcastChannel(name);
    let waiting: readonly PermissionInfo[] | null = null;
    channel.onmessage = ({ data }: MessageEvent<PermissionEvent | IJoined>) => {
      if (data.kind !== 'joined') {
        take(data);
      } else if (waiting !== null) {
        channel.postMessage({ kind: 'waiting', permissions: waiting });
      }
    };
    channel.postMessage({ kind: 'joined' } satisfies IJoined);
    const tell = (event: PermissionEvent): void => {
      waiting = reduce(waiting ?? [], event);
      take(event);
      channel.postMessage(event);
    };
    try {
      await navigator.locks.request(name, { signal }, () => listen(tell, signal));
    } catch (error) {
      if (!signal.aborted) {
        throw error;
      }
    } finally {
      channel.close();
    }
  };
}
