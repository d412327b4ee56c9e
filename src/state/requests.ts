/** Reducer of the pending permission requests. */

import type { PermissionEvent, PermissionInfo } from '../api/events';

/** Return the requests after an event. Known requests stay the same objects. */
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
      // A newer server may send other events.
      return waiting;
  }
}

/** Return whether a request is shown here, and not in the transcript of its chat. */
function isShownHere({ interface: kind, within_call }: PermissionInfo): boolean {
  return !(kind === 'chat' && within_call);
}
