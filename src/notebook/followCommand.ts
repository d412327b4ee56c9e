import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { ICommandPalette } from '@jupyterlab/apputils';
import type { INotebookTracker } from '@jupyterlab/notebook';
import type { ISettingRegistry } from '@jupyterlab/settingregistry';
import type { TranslationBundle } from '@jupyterlab/translation';

import type { IActivities } from './activities';

const command = 'tk-ai:follow-agent';

/** Add the command that follows the agents in notebooks, and follow them if the setting says so. */
export function addFollow(
  { commands }: JupyterFrontEnd,
  notebooks: INotebookTracker,
  activities: IActivities,
  settings: Promise<ISettingRegistry.ISettings> | undefined,
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
    caption: trans.__('Scroll to the cell that an agent works on'),
    describedBy: { args: { type: 'object', properties: {} } },
    isToggleable: true,
    isToggled: () => end !== null,
    execute: async () => {
      const { follow } = await import(/* webpackChunkName: "notebook" */ './follow');
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
  void settings?.then(({ composite }) => {
    if (composite['followAgent'] === true) {
      void commands.execute(command);
    }
  });
}
