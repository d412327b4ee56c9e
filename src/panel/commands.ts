import type { JupyterFrontEnd } from '@jupyterlab/application';
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

import { showConnect } from './connect';
import type { IPanelServices } from './panelServices';
import type { IPanelContext } from './services';
import { showSetup } from './setup';
import type { IAbout } from '../state/compose';
import { chatIcon } from '../common/icon';
import type { PanelManager } from './panelManager';

/** Ids of the panel's commands. */
export const CommandIDs = {
  show: 'tk-ai:show-panel',
  main: 'tk-ai:open-in-main',
  create: 'tk-ai:new-chat',
  history: 'tk-ai:history',
  ask: 'tk-ai:ask',
  question: 'tk-ai:question',
  stop: 'tk-ai:stop',
  connect: 'tk-ai:connect',
  setup: 'tk-ai:setup'
} as const;

/** Add the panel's commands. */
export function addCommands(
  app: JupyterFrontEnd,
  services: IPanelServices,
  manager: PanelManager
): void {
  const { trans } = services;
  const add = (id: string, options: CommandRegistry.ICommandOptions): void => {
    app.commands.addCommand(id, options);
  };

  const within = (): IPanelContext => ({ ...services, controller: manager.current().controller });

  add(CommandIDs.show, {
    label: trans.__('Chat with Claude'),
    caption: trans.__('Show the chat in the sidebar and write a message'),
    icon: chatIcon,
    execute: () => {
      manager.show().focusBox();
    }
  });
  add(CommandIDs.main, {
    label: args =>
      args['isLauncher'] === true ? trans.__('Claude') : trans.__('Open Chat in a Tab'),
    caption: trans.__('Open a chat with Claude in the main area'),
    icon: args => (args['isLauncher'] === true ? chatIcon : launchIcon),
    execute: args => {
      const { chat, name } = args;
      const isNew = args['isLauncher'] === true || chat !== undefined;
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
  });
  add(CommandIDs.create, {
    label: trans.__('New Chat'),
    caption: trans.__('Start a new chat with Claude'),
    icon: addIcon,
    execute: () => manager.shown().controller.open(null)
  });
  add(CommandIDs.history, {
    label: trans.__('Chat History'),
    caption: trans.__('Find, rename, export or delete a chat'),
    icon: historyIcon,
    execute: () => manager.shown().controller.showHistory(true)
  });
  add(CommandIDs.ask, {
    label: args => (typeof args['label'] === 'string' ? args['label'] : trans.__('Ask Claude')),
    caption: trans.__('Write a message about the current notebook in the chat'),
    icon: editIcon,
    execute: async args => {
      const { controller } = manager.beside();
      const text = typeof args['message'] === 'string' ? args['message'] : '';
      if (args['send'] === true) {
        await controller.ask(text, aboutOf(args));
      } else {
        controller.write(text, aboutOf(args));
      }
    }
  });
  add(CommandIDs.question, {
    label: trans.__('Go to Pending Approval'),
    caption: trans.__('Go to the call that needs your approval'),
    icon: infoIcon,
    execute: () => manager.withQuestion()?.focusQuestion()
  });
  add(CommandIDs.stop, {
    label: trans.__('Stop Claude'),
    caption: trans.__('Stop the current answer in this chat'),
    icon: stopIcon,
    isEnabled: () => manager.current().controller.chat.busy,
    execute: () => manager.current().controller.chat.stop()
  });
  add(CommandIDs.connect, {
    label: trans.__('Connect a Model'),
    caption: trans.__('Show how to connect Claude or another model'),
    execute: () => showConnect(within())
  });
  add(CommandIDs.setup, {
    label: trans.__('Chat Setup'),
    caption: trans.__('Instructions, prompts, MCP servers and approvals'),
    icon: settingsIcon,
    execute: () => showSetup(within())
  });
}

/** Return what a message is about; null without a notebook. */
function aboutOf({ notebook, cells }: ReadonlyPartialJSONObject): IAbout | null {
  if (typeof notebook !== 'string') {
    return null;
  }
  const ids = Array.isArray(cells) ? cells : [];
  return { notebook, cells: ids.filter(id => typeof id === 'string') };
}
