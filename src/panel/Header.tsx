import { InputDialog } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import { addIcon, historyIcon, settingsIcon } from '@jupyterlab/ui-components';
import type { JSX } from 'react';

import type { ChatInfo } from '../api/events';
import { notifyOnError } from '../api/notifyOnError';
import type { IChats } from '../chat/service';
import { MenuButton, ToolButton } from './controls';
import { useChat, useSelector, useServices } from './services';

interface IProps {
  /** The chat's key in the store. */
  chat: string;
  showsHistory: boolean;
  onHistory: () => void;
  onNew: () => void;
}

/** The title of the chat, and the buttons for the history and a new chat. */
export function Header({ chat, showsHistory, onHistory, onNew }: IProps): JSX.Element {
  const { chats, commands, trans } = useServices();
  const id = useChat(chat, ({ id }) => id);
  const named = useSelector(state => state.chats.find(each => each.id === id)?.title);
  const title = named ?? trans.__('New chat');
  const follow = 'tk-ai:follow-agent';
  return (
    <div className="tk-Header">
      <button
        type="button"
        className="tk-Title"
        title={id === null ? title : trans.__('Rename: %1', title)}
        disabled={id === null}
        onClick={() => id !== null && void renameChat({ id, title }, chats, trans)}
      >
        {title}
      </button>
      <MenuButton
        icon={settingsIcon}
        label={trans.__('Settings')}
        items={[
          {
            label: trans.__('Connect a model…'),
            run: () => void commands.execute('tk-ai:connect')
          },
          { label: trans.__('Chat setup…'), run: () => void commands.execute('tk-ai:setup') },
          {
            label: trans.__('All settings'),
            run: () => void commands.execute('settingeditor:open', { query: 'Claude' })
          },
          ...(commands.hasCommand(follow)
            ? [
                {
                  label: trans.__('Scroll to what the agent does'),
                  isToggled: () => commands.isToggled(follow),
                  run: () => void commands.execute(follow)
                }
              ]
            : [])
        ]}
      />
      <ToolButton
        icon={historyIcon}
        label={trans.__('History')}
        aria-pressed={showsHistory}
        onClick={onHistory}
      />
      <ToolButton icon={addIcon} label={trans.__('New chat')} onClick={onNew} />
    </div>
  );
}

/** Ask for another title of a chat, and rename it. */
export async function renameChat(
  { id, title }: Pick<ChatInfo, 'id' | 'title'>,
  chats: IChats,
  trans: TranslationBundle
): Promise<void> {
  const { value } = await InputDialog.getText({
    title: trans.__('Rename Chat'),
    label: trans.__('Title'),
    text: title
  });
  if (value !== null && !['', title].includes(value.trim())) {
    await notifyOnError(chats.rename(id, value));
  }
}
