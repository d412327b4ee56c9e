/** Parts of a turn in a chunk that loads when the first of them is rendered. */

import { type ComponentType, lazy } from 'react';

import type * as Parts from './TurnEnd';

/** Return a component that renders nothing if the chunk does not load. */
function part<K extends keyof typeof Parts>(name: K): (typeof Parts)[K] {
  const load = (): Promise<{ default: ComponentType }> =>
    import(/* webpackChunkName: "turn" */ './TurnEnd').then(
      parts => ({ default: parts[name] as ComponentType }),
      () => ({ default: () => null })
    );
  return lazy(load) as unknown as (typeof Parts)[K];
}

export const CallDetails = part('CallDetails');
export const RestoredNote = part('RestoredNote');
export const RestoreQuestion = part('RestoreQuestion');
export const TodoList = part('TodoList');
export const TurnEnd = part('TurnEnd');
