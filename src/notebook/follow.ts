import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { ICommandPalette } from '@jupyterlab/apputils';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { TranslationBundle } from '@jupyterlab/translation';

import type { IActivities } from './activities';
import { cellOf } from './keys';

const command = 'tk-ai:follow-agent';

/** Add the command that follows the agents in notebooks. */
export function addFollow(
  { commands }: JupyterFrontEnd,
  notebooks: INotebookTracker,
  activities: IActivities,
  palette: ICommandPalette | null,
  trans: TranslationBundle
): void {
  let end: (() => void) | null = null;
  const ended = (): void => {
    end = null;
    commands.notifyCommandChanged(command);
  };
  commands.addCommand(command, {
    label: trans.__('Follow the Agent'),
    caption: trans.__('Scroll to the cell that an agent works on or shows'),
    describedBy: { args: { type: 'object', properties: {} } },
    isToggleable: true,
    isToggled: () => end !== null,
    execute: () => {
      if (end === null) {
        end = follow(notebooks, activities, ended);
        commands.notifyCommandChanged(command);
      } else {
        end();
        ended();
      }
    }
  });
  palette?.addItem({ command, category: trans.__('Claude') });
}

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
    const look = (_: unknown, cell: string): void => {
      const widget = panel.isVisible ? cellOf(panel, cell) : undefined;
      if (widget !== undefined) {
        void content.scrollToItem(content.widgets.indexOf(widget), 'smart');
      }
    };
    activity.worked.connect(look);
    ACTS.forEach(act => content.node.addEventListener(act, stop, { capture: true, passive: true }));
    ends.push(() => {
      activity.worked.disconnect(look);
      ACTS.forEach(act => content.node.removeEventListener(act, stop, { capture: true }));
    });
  };
  const added = (_: unknown, panel: NotebookPanel): void => add(panel);
  notebooks.forEach(add);
  notebooks.widgetAdded.connect(added);
  ends.push(() => notebooks.widgetAdded.disconnect(added));
  return end;
}
