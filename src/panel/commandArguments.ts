import type { TranslationBundle } from '@jupyterlab/translation';
import type { ReadonlyJSONObject } from '@lumino/coreutils';

/** Return the schema of the arguments of a command. */
export function argumentsOf(command: 'main' | 'ask', trans: TranslationBundle): ReadonlyJSONObject {
  return command === 'main'
    ? {
        type: 'object',
        properties: {
          chat: {
            type: ['string', 'null'],
            description: trans.__(
              'The id of a chat; null for a new chat. Default: the current chat'
            )
          },
          name: {
            type: 'string',
            description: trans.__('The id of the tab before a reload')
          },
          isLauncher: {
            type: 'boolean',
            description: trans.__('Whether the command is shown in the launcher')
          }
        }
      }
    : {
        type: 'object',
        required: ['message'],
        properties: {
          message: { type: 'string', description: trans.__('The message') },
          send: {
            type: 'boolean',
            description: trans.__('Whether the message is sent immediately')
          },
          notebook: {
            type: 'string',
            description: trans.__(
              'The path of the notebook that the message is about. Default: the current notebook'
            )
          },
          cells: {
            type: 'array',
            items: { type: 'string' },
            description: trans.__('The ids of the cells in that notebook that the message is about')
          },
          label: { type: 'string', description: trans.__('The label of the command') }
        }
      };
}
