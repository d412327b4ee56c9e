import { type FunctionComponent, lazy, type ReactNode } from 'react';

type Parts = typeof import('./contextParts');

/** Load what the composer needs later. */
export const contextParts = (): Promise<Parts> =>
  import(/* webpackChunkName: "context" */ './contextParts');

/** A component that is loaded when it is first rendered; nothing if the server cannot be reached. */
function part<P>(choose: (parts: Parts) => (props: P) => ReactNode): FunctionComponent<P> {
  return lazy(async (): Promise<{ default: FunctionComponent<P> }> => {
    const parts = await contextParts().catch(() => null);
    return { default: parts === null ? () => null : choose(parts) };
  }) as unknown as FunctionComponent<P>;
}

export const Completions = part(parts => parts.Completions);
export const ContextMeter = part(parts => parts.ContextMeter);
export const VariablePreview = part(parts => parts.VariablePreview);
