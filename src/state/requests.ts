/** Events become the requests that wait for an answer here. Pure: no list is ever changed. */

import type { PermissionEvent, PermissionInfo } from '../api/events';

/** The requests after an event. What is known already stays the same object. */
export function reduceRequests(
  waiting: readonly PermissionInfo[],
  event: PermissionEvent
): readonly PermissionInfo[] {
  switch (event.kind) {
    case 'waiting':
      return event.permissions
        .filter(isShownHere)
        .map(each => waiting.find(known => known.id === each.id) ?? each);
    case 'asked': {
      const { permission } = event;
      const isNew = waiting.every(known => known.id !== permission.id);
      return isNew && isShownHere(permission) ? [...waiting, permission] : waiting;
    }
    case 'settled':
      return waiting.some(known => known.id === event.id)
        ? waiting.filter(known => known.id !== event.id)
        : waiting;
    default:
      // A newer server tells of more than is known here.
      return waiting;
  }
}

/** Whether it is asked for here, and not in the chat that it belongs to. */
function isShownHere({ face, within_call }: PermissionInfo): boolean {
  return !(face === 'chat' && within_call);
}
