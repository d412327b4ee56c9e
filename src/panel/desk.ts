import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { ISignal } from '@lumino/signaling';
import type { CommandRegistry } from '@lumino/commands';
import { createContext, useContext, useEffect, useState } from 'react';

import type { IReviews } from '../changes/reviews';
import type { IChats } from '../chat/service';
import type { IQuestions } from '../questions/model';
import type { Memory } from './memory';
import type { Preferences } from './preferences';
import type { Surroundings } from './surroundings';

/** All that the parts of the panel need of the world around it. */
export interface IDesk {
  chats: IChats;
  commands: CommandRegistry;
  memory: Memory;
  preferences: Preferences;
  /** What agents ask that are not the panel's own chats. */
  questions: IQuestions;
  /** What the person has kept of what agents changed. */
  reviews: IReviews;
  /** Renders what a model wrote: sanitized, and loading nothing. */
  rendermime: IRenderMimeRegistry;
  surroundings: Surroundings;
  trans: TranslationBundle;
}

const DeskContext = createContext<IDesk | null>(null);

export const DeskProvider = DeskContext.Provider;

/** The world around the panel. */
export function useDesk(): IDesk {
  const desk = useContext(DeskContext);
  if (desk === null) {
    throw new Error('The panel is rendered outside of its desk.');
  }
  return desk;
}

/** Renders again when a signal says so, once a frame at most. */
export function useSignal<T, V>(signal: ISignal<T, V>): void {
  const [, setCount] = useState(0);
  useEffect(() => {
    let frame = 0;
    const changed = (): void => {
      frame ||= requestAnimationFrame(() => {
        frame = 0;
        setCount(count => count + 1);
      });
    };
    signal.connect(changed);
    // What happened before it was connected.
    changed();
    return () => {
      cancelAnimationFrame(frame);
      signal.disconnect(changed);
    };
  }, [signal]);
}
