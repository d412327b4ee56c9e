import { addIcon, historyIcon, settingsIcon } from '@jupyterlab/ui-components';
import { useState } from 'react';
import type { JSX } from 'react';

import { notifyOnError } from '../api/notifyOnError';
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
  // The id of the chat that is being renamed, since the panel may show another one meanwhile.
  const [renaming, setRenaming] = useState<string | null>(null);
  const title = named ?? trans.__('New chat');
  const follow = 'tk-ai:follow-agent';
  return (
    <div className="tk-Header">
      {id !== null && renaming === id ? (
        <TitleBox
          title={title}
          onDone={name => {
            setRenaming(null);
            if (name !== null) {
              void notifyOnError(chats.rename(id, name));
            }
          }}
        />
      ) : (
        <button
          type="button"
          className="tk-Title"
          title={id === null ? title : trans.__('Rename: %1', title)}
          disabled={id === null}
          onClick={() => setRenaming(id)}
        >
          {title}
        </button>
      )}
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

/** A text field for a title. Enter and blur apply it, Escape cancels. */
export function TitleBox(props: {
  title: string;
  onDone: (title: string | null) => void;
}): JSX.Element {
  const { trans } = useServices();
  const [title, setTitle] = useState(props.title);
  // The title may have changed since. What nobody has changed here is not sent.
  const [before] = useState(props.title);
  const take = (): void => props.onDone(['', before].includes(title.trim()) ? null : title);
  return (
    <input
      className="tk-TitleBox"
      aria-label={trans.__('Title')}
      value={title}
      autoFocus
      onFocus={event => event.target.select()}
      onChange={event => setTitle(event.target.value)}
      onBlur={take}
      onKeyDown={event => {
        const place = event.currentTarget.parentElement;
        if (event.nativeEvent.isComposing) {
          return;
        }
        if (event.key === 'Enter') {
          take();
        } else if (event.key === 'Escape') {
          event.stopPropagation();
          props.onDone(null);
        } else {
          return;
        }
        // The field is removed: keep the keyboard focus at the title.
        requestAnimationFrame(() => place?.querySelector('button')?.focus());
      }}
    />
  );
}
