/** Reducer of the pending permission requests. */

import type { PermissionEvent, PermissionInfo } from '../api/events';

/** Return the requests after an event. Known requests stay the same objects. */
export function reduceRequests(
  waiting: readonly PermissionInfo[],
  event: PermissionEvent
): readonly PermissionInfo[] {
  switch (event.kind) {
    case 'waiting':
      return event.permissions.map(each => waiting.find(known => known.id === each.id) ?? each);
    case 'asked': {
      const { permission } = event;
      const isNew = waiting.every(known => known.id !== permission.id);
      return isNew ? [...waiting, permission] : waiting;
    }
    case 'settled':
      return waiting.some(known => known.id === event.id)
        ? waiting.filter(known => known.id !== event.id)
        : waiting;
    default:
      // A newer server may send other events.
      return waiting;
  }
}
