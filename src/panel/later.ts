/** Parts of the panel in chunks that load when they are first needed. */

import { lazy } from 'react';

import { backOff } from '../api/retry';

/** Load a chunk, again and again until the server answers. */
export async function insist<M>(load: () => Promise<M>, tries = 0): Promise<M> {
  try {
    return await load();
  } catch {
    await backOff(tries);
    return insist(load, tries + 1);
  }
}

/** Return a function that loads a chunk once, however often it is called. */
function once<M>(load: () => Promise<M>): () => Promise<M> {
  let loading: Promise<M> | undefined;
  return () => (loading ??= insist(load));
}

/** Return the components of a chunk. They suspend until it is loaded. */
function parts<M, K extends keyof M>(load: () => Promise<M>, ...names: K[]): Pick<M, K> {
  const loaded = names.map(name => {
    const part = lazy(() => insist(load).then(module => ({ default: module[name] as never })));
    return [name, part];
  });
  return Object.fromEntries(loaded) as Pick<M, K>;
}

/** Load what the composer needs for completions and the model's context. */
export const contextParts = once(() => import(/* webpackChunkName: "context" */ './contextParts'));

export const { Completions, ContextMeter, VariablePreview } = parts(
  contextParts,
  'Completions',
  'ContextMeter',
  'VariablePreview'
);

export const { CallDetails, Cost, RestoredNote, RestoreQuestion, TodoList, TurnEnd } = parts(
  () => import(/* webpackChunkName: "turn" */ './TurnEnd'),
  'CallDetails',
  'Cost',
  'RestoredNote',
  'RestoreQuestion',
  'TodoList',
  'TurnEnd'
);

/**
 * Load approval cards and the status of queued messages; with the panel, since a server that was upgraded
 * meanwhile has other chunks.
 */
export const approvalParts = once(
  () => import(/* webpackChunkName: "approval" */ './AgentRequest')
);

export const { AgentRequest, Question, Queued } = parts(
  approvalParts,
  'AgentRequest',
  'Question',
  'Queued'
);

export const { History } = parts(
  () => import(/* webpackChunkName: "history" */ './History'),
  'History'
);
