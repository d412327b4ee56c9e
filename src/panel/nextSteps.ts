/** Suggested messages after a turn, derived from what it left. */

import type { TranslationBundle } from '@jupyterlab/translation';

import type { ICellReview } from '../changes/turnReview';
import { numberOf } from '../common/position';
import type { ITurn } from '../state/chat';
import type { IAbout } from '../state/compose';
import type { NotebookContext } from './notebook';

/** Maximum number of suggestions. */
const MAX_STEPS = 3;

/** A suggested message. */
export interface INextStep {
  text: string;
  /** The cells that it is about; null for the current notebook. */
  about: IAbout | null;
}

/**
 * Return suggested messages after a turn.
 *
 * @param changed - The cells that it changed and that are not undone.
 * @param context - The current notebook. A suggestion about cells needs the turn's notebook.
 */
export function nextSteps(
  turn: ITurn,
  changed: readonly ICellReview[],
  context: Pick<NotebookContext, 'seen' | 'promptSubjects' | 'unrun'>,
  trans: TranslationBundle
): INextStep[] {
  const steps: INextStep[] = [];
  const { notebook } = turn;
  if (notebook !== null && context.seen?.notebook === notebook) {
    const { failed } = context.promptSubjects;
    if (failed !== null) {
      const about = { notebook, cells: [failed.id] };
      steps.push({ text: trans.__('Fix cell %1', numberOf(failed.index)), about });
    }
    const here = changed.filter(each => each.notebook === notebook).map(({ cell }) => cell);
    const cells = context.unrun(here).filter(cell => cell !== failed?.id);
    if (cells.length > 0) {
      steps.push({
        text: trans._n('Run the changed cell', 'Run the changed cells', cells.length),
        about: { notebook, cells }
      });
    }
  }
  if (turn.todo.some(({ status }) => status !== 'completed')) {
    steps.push({ text: trans.__('Continue with the to-do list'), about: null });
  }
  if (changed.length > 0) {
    steps.push({ text: trans.__('Explain the changes'), about: null });
  }
  return steps.slice(0, MAX_STEPS);
}
