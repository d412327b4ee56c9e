import type { JupyterFrontEnd } from '@jupyterlab/application';
import {
  addIcon,
  editIcon,
  historyIcon,
  infoIcon,
  launchIcon,
  stopIcon
} from '@jupyterlab/ui-components';
import type { CommandRegistry } from '@lumino/commands';

import { showConnect } from './connect';
import type { IDesk } from './desk';
import { chatIcon } from '../parts/icon';
import type { ChatPanel } from './widget';

/** The names of the panel's commands. */
export const CommandIDs = {
  show: 'tk-ai:show-panel',
  main: 'tk-ai:open-in-main',
  create: 'tk-ai:new-chat',
  history: 'tk-ai:history',
  ask: 'tk-ai:ask',
  question: 'tk-ai:question',
  stop: 'tk-ai:stop',
  connect: 'tk-ai:connect'
} as const;

/** Where the panels are. */
export interface IPlaces {
  /** The panel in the sidebar, shown. */
  show(): ChatPanel;
  /** A panel in the main area, with a chat. */
  openInMain(chat: string | null): ChatPanel;
  /** The panel that the person used last. */
  current(): ChatPanel;
}

const NOTHING = { type: 'object', properties: {} } as const;

/** Adds the panel's commands. */
export function addCommands(app: JupyterFrontEnd, desk: IDesk, places: IPlaces): void {
  const { trans } = desk;
  const add = (id: string, options: CommandRegistry.ICommandOptions): void => {
    app.commands.addCommand(id, { describedBy: { args: NOTHING }, ...options });
  };

  add(CommandIDs.show, {
    label: trans.__('Chat with Claude'),
    caption: trans.__('Show the chat in the sidebar and write a message'),
    icon: chatIcon,
    execute: () => {
      places.show().focusBox();
    }
  });
  add(CommandIDs.main, {
    label: args =>
      args['isLauncher'] === true ? trans.__('Claude') : trans.__('Open the Chat as a Tab'),
    caption: trans.__('Open a chat with Claude in the main area'),
    icon: args => (args['isLauncher'] === true ? chatIcon : launchIcon),
    describedBy: {
      args: {
        type: 'object',
        properties: {
          chat: { type: 'string', description: trans.__('The id of a chat; a new one without') },
          isLauncher: { type: 'boolean', description: trans.__('Whether the launcher asks') }
        }
      }
    },
    execute: args => {
      const { chat } = args;
      const current = args['isLauncher'] === true ? null : places.current().model.chat.id;
      return places.openInMain(typeof chat === 'string' ? chat : current);
    }
  });
  add(CommandIDs.create, {
    label: trans.__('New Chat'),
    caption: trans.__('Begin a new chat with Claude'),
    icon: addIcon,
    execute: () => places.show().model.open(null)
  });
  add(CommandIDs.history, {
    label: trans.__('Chat History'),
    caption: trans.__('Find, rename, export or delete a chat'),
    icon: historyIcon,
    execute: () => places.show().model.showHistory(true)
  });
  add(CommandIDs.ask, {
    label: args => (typeof args['label'] === 'string' ? args['label'] : trans.__('Ask Claude')),
    caption: trans.__('Put a message into the chat, about what you look at'),
    icon: editIcon,
    describedBy: {
      args: {
        type: 'object',
        required: ['message'],
        properties: {
          message: { type: 'string', description: trans.__('What to ask') },
          send: { type: 'boolean', description: trans.__('Whether it is sent at once') },
          label: { type: 'string', description: trans.__('What the command is called') }
        }
      }
    },
    execute: async args => {
      const { model } = places.show();
      const text = typeof args['message'] === 'string' ? args['message'] : '';
      if (args['send'] === true) {
        await model.ask(text);
      } else {
        model.change({ text }, true);
      }
    }
  });
  add(CommandIDs.question, {
    label: trans.__("Go to Claude's Question"),
    caption: trans.__('Move to what waits for your leave'),
    icon: infoIcon,
    execute: () => places.show().focusQuestion()
  });
  add(CommandIDs.stop, {
    label: trans.__('Stop Claude'),
    caption: trans.__('Stop what Claude does in this chat'),
    icon: stopIcon,
    isEnabled: () => places.current().model.chat.busy,
    execute: () => places.current().model.chat.stop()
  });
  add(CommandIDs.connect, {
    label: trans.__('Connect a Model'),
    caption: trans.__('How to connect Claude or another model'),
    execute: () => showConnect(desk)
  });
}
