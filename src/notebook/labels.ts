/** Labels of changes by agents. */

import { Time } from '@jupyterlab/coreutils';
import type { TranslationBundle } from '@jupyterlab/translation';

import type { CombinedChange } from '../api/events';

/** Format the age of a time in seconds since the epoch, in minutes or more. */
export function ago(time: number, style: 'long' | 'narrow' = 'narrow'): string {
  const recent = Date.now() / 1000 - time < 60;
  return Time.formatHuman(recent ? new Date() : new Date(time * 1000), style);
}

/** Return author and age, such as `Claude · now`. */
export function signature({ author, time }: { author: string; time: number }): string {
  return `${author} · ${ago(time)}`;
}

/** Return the text of a mark. */
export function markText(mark: CombinedChange, trans: TranslationBundle): string {
  return mark.entries.length > 0 ? signature(mark) : trans.__('%1 shows this cell', mark.author);
}

/** Return the accessible name of a mark. */
export function markLabel(mark: CombinedChange, trans: TranslationBundle): string {
  if (mark.entries.length === 0) {
    return trans.__('%1 shows this cell. Remove this mark.', mark.author);
  }
  return trans.__('Changed by %1, %2. Show what changed.', mark.author, ago(mark.time, 'long'));
}

/** Return what was done to a cell; empty if the diff is enough. */
export function changeLabel({ action, diff }: CombinedChange, trans: TranslationBundle): string {
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
