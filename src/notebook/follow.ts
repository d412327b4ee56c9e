/** Scrolls a notebook to the cell that an agent works on. It is in a chunk that loads later. */

import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';

import type { IActivities } from './activities';
import { cellOf } from './keys';

/** What a person does in a notebook that ends following. Scrolling by a program is none of it. */
const ACTS = ['wheel', 'touchmove', 'pointerdown', 'keydown'] as const;

/**
 * Follow the agents in all notebooks, until a person scrolls, types or clicks in one.
 *
 * The active cell and the focus stay where they are.
 *
 * @param ended - Called when the person ends it.
 * @returns A function that ends it.
 */
export function follow(
  notebooks: Pick<INotebookTracker, 'forEach' | 'widgetAdded'>,
  activities: IActivities,
  ended: () => void
): () => void {
  const ends: (() => void)[] = [];
  const end = (): void => ends.splice(0).forEach(each => each());
  const stop = (): void => {
    end();
    ended();
  };
  const add = (panel: NotebookPanel): void => {
    const { content } = panel;
    const activity = activities.of(panel);
    const newest = (): { entry: number; cell: string | null } => {
      let found = { entry: 0, cell: null as string | null };
      for (const [cell, { steps }] of activity.marks) {
        const entry = Math.max(...steps.map(step => step.entry));
        found = entry > found.entry ? { entry, cell } : found;
      }
      return found;
    };
    let { entry } = newest();
    let run = activity.running.at(-1)?.cell;
    const look = (): void => {
      const [change, running] = [newest(), activity.running.at(-1)?.cell];
      const cell = running !== run ? running : change.entry > entry ? change.cell : undefined;
      run = running;
      entry = Math.max(entry, change.entry);
      const widget = cell != null && panel.isVisible ? cellOf(panel, cell) : undefined;
      if (widget !== undefined) {
        void content.scrollToItem(content.widgets.indexOf(widget), 'smart');
      }
    };
    activity.changed.connect(look);
    ACTS.forEach(act => content.node.addEventListener(act, stop, { capture: true, passive: true }));
    ends.push(() => {
      activity.changed.disconnect(look);
      ACTS.forEach(act => content.node.removeEventListener(act, stop, { capture: true }));
    });
  };
  const added = (_: unknown, panel: NotebookPanel): void => add(panel);
  notebooks.forEach(add);
  notebooks.widgetAdded.connect(added);
  ends.push(() => notebooks.widgetAdded.disconnect(added));
  return end;
}
