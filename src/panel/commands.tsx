import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { ICommandPalette } from '@jupyterlab/apputils';
import {
  addIcon,
  editIcon,
  historyIcon,
  infoIcon,
  launchIcon,
  settingsIcon,
  stopIcon
} from '@jupyterlab/ui-components';
import type { CommandRegistry } from '@lumino/commands';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import type { JSX } from 'react';

import { chatIcon } from '../common/icon';
import type { IAbout } from '../state/compose';
import { Connect } from './ConnectForm';
import { showContent } from './dialog';
import type { PanelManager } from './panelManager';
import type { IPanelServices } from './panelServices';
import { SetupView } from './SetupView';

/** The command that opens a chat in the main area, as the launcher and the layout's restorer do. */
export const OPEN_IN_MAIN = 'tk-ai:open-in-main';

/** Add the panel's commands. */
export function addCommands(
  app: JupyterFrontEnd,
  services: IPanelServices,
  manager: PanelManager,
  palette: ICommandPalette | null
): void {
  const { trans } = services;
  const show = (title: string, render: (close: () => void) => JSX.Element): Promise<void> =>
    showContent({ ...services, controller: manager.current().controller }, title, render);
  const commands: Record<string, CommandRegistry.ICommandOptions> = {
    'tk-ai:show-panel': {
      label: trans.__('Chat with Claude'),
      caption: trans.__('Show the chat in the sidebar and write a message'),
      icon: chatIcon,
      execute: () => manager.show().focusBox()
    },
    [OPEN_IN_MAIN]: {
      label: ({ isLauncher }) =>
        isLauncher === true ? trans.__('Claude') : trans.__('Open Chat in a Tab'),
      caption: trans.__('Open a chat with Claude in the main area'),
      icon: ({ isLauncher }) => (isLauncher === true ? chatIcon : launchIcon),
      execute: args => openInMain(manager, args)
    },
    'tk-ai:new-chat': {
      label: trans.__('New Chat'),
      caption: trans.__('Start a new chat with Claude'),
      icon: addIcon,
      execute: () => manager.shown().controller.open(null)
    },
    'tk-ai:history': {
      label: trans.__('Chat History'),
      caption: trans.__('Find, rename, export or delete a chat'),
      icon: historyIcon,
      execute: () => manager.shown().controller.showHistory(true)
    },
    'tk-ai:question': {
      label: trans.__('Go to Pending Approval'),
      caption: trans.__('Go to the call that needs your approval'),
      icon: infoIcon,
      execute: () => manager.withQuestion()?.focusQuestion()
    },
    'tk-ai:stop': {
      label: trans.__('Stop Claude'),
      caption: trans.__('Stop the current answer in this chat'),
      icon: stopIcon,
      isEnabled: () => manager.current().controller.chat.busy,
      execute: () => manager.current().controller.chat.stop()
    },
    'tk-ai:connect': {
      label: trans.__('Connect a Model'),
      caption: trans.__('Show how to connect Claude or another model'),
      execute: () => show(trans.__('Connect a model'), () => <Connect />)
    },
    'tk-ai:setup': {
      label: trans.__('Chat Setup'),
      caption: trans.__('Instructions, prompts, MCP servers and approvals'),
      icon: settingsIcon,
      execute: () => show(trans.__('Chat Setup'), close => <SetupView close={close} />)
    }
  };
  for (const [command, options] of Object.entries(commands)) {
    app.commands.addCommand(command, options);
    palette?.addItem({ command, category: trans.__('Claude') });
  }
  app.commands.addCommand('tk-ai:ask', {
    label: ({ label }) => (typeof label === 'string' ? label : trans.__('Ask Claude')),
    caption: trans.__('Write a message about the current notebook in the chat'),
    icon: editIcon,
    execute: async args => {
      const { controller } = manager.showVisible();
      const text = typeof args['message'] === 'string' ? args['message'] : '';
      if (args['send'] === true) {
        await controller.ask(text, aboutOf(args));
      } else {
        controller.write(text, aboutOf(args));
      }
    }
  });
}

/** Open a chat in the main area: a new one, that of a restored tab, or that of the current panel. */
function openInMain(
  manager: PanelManager,
  { chat, isLauncher, name }: ReadonlyPartialJSONObject
): unknown {
  const isNew = isLauncher === true || chat !== undefined;
  const { controller } = manager.current();
  const id = isNew ? null : controller.chat.id;
  const panel = manager.openTab(
    typeof chat === 'string' ? chat : id,
    typeof name === 'string' ? name : undefined
  );
  if (!isNew && id === null && panel.controller !== controller) {
    panel.controller.takeOver(controller);
  }
  return panel;
}

/** Return what a message is about; null without a notebook. */
function aboutOf({ notebook, cells }: ReadonlyPartialJSONObject): IAbout | null {
  if (typeof notebook !== 'string') {
    return null;
  }
  const ids = Array.isArray(cells) ? cells : [];
  return { notebook, cells: ids.filter(id => typeof id === 'string') };
}
