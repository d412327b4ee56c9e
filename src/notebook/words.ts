/** What agents did, in words. */

import { Time } from '@jupyterlab/coreutils';
import type { TranslationBundle } from '@jupyterlab/translation';

import type { IMark, IStep } from './marks';

/** How long ago something was; seconds are not counted. */
export function ago(time: number, style: 'long' | 'narrow' = 'narrow'): string {
  const recent = Date.now() / 1000 - time < 60;
  return Time.formatHuman(recent ? new Date() : new Date(time * 1000), style);
}

/** Who and when, as it stands in the margin: `Claude · now`. */
export function signature({ author, time }: { author: string; time: number }): string {
  return `${author} · ${ago(time)}`;
}

/** What a mark says to those who do not see it. */
export function described(mark: IMark, trans: TranslationBundle): string {
  return trans.__('Changed by %1, %2. Show what changed.', mark.author, ago(mark.time, 'long'));
}

/** What one step did, where its diff does not say it. */
export function stepOf({ action, diff }: IStep, trans: TranslationBundle): string {
  switch (action) {
    case 'insert':
      return diff === '' ? trans.__('Added an empty cell.') : trans.__('Added this cell.');
    case 'delete':
      return trans.__('Deleted this cell.');
    case 'move':
      return trans.__('Moved this cell.');
    case 'outputs':
      return trans.__('Changed its outputs.');
    case 'replace':
      return diff === '' ? trans.__('Changed its type.') : '';
  }
}
