import { addIcon, historyIcon } from '@jupyterlab/ui-components';
import { useState } from 'react';
import type { JSX } from 'react';

import { useChat, useSelector, useServices } from './services';
import { orSay } from './failing';
import { ToolButton } from './ToolButton';

interface IProps {
  /** The chat's key in the store. */
  chat: string;
  showsHistory: boolean;
  onHistory: () => void;
  onNew: () => void;
}

/** Which chat this is, and the way to the others. */
export function Header({ chat, showsHistory, onHistory, onNew }: IProps): JSX.Element {
  const { chats, trans } = useServices();
  const id = useChat(chat, ({ id }) => id);
  const named = useSelector(state => state.chats.find(each => each.id === id)?.title);
  // The chat whose title is being changed: another one that is shown has its own.
  const [renaming, setRenaming] = useState<string | null>(null);
  const title = named ?? trans.__('New chat');
  return (
    <div className="tk-Header">
      {id !== null && renaming === id ? (
        <TitleBox
          title={title}
          onDone={name => {
            setRenaming(null);
            if (name !== null) {
              void orSay(chats.rename(id, name));
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
      <ToolButton
        icon={historyIcon}
        label={trans.__('History')}
        pressed={showsHistory}
        onClick={onHistory}
      />
      <ToolButton icon={addIcon} label={trans.__('New chat')} onClick={onNew} />
    </div>
  );
}

/** A title that is being changed: Enter takes it, Escape does not. */
export function TitleBox(props: {
  title: string;
  onDone: (title: string | null) => void;
}): JSX.Element {
  const { trans } = useServices();
  const [title, setTitle] = useState(props.title);
  const take = (): void => props.onDone(title.trim() === '' ? null : title);
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
        // The box goes away: who works by keys goes on where the title stands.
        requestAnimationFrame(() => place?.querySelector('button')?.focus());
      }}
    />
  );
}
