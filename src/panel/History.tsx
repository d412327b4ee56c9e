import { Dialog, showDialog } from '@jupyterlab/apputils';
import { Time } from '@jupyterlab/coreutils';
import { ellipsesIcon } from '@jupyterlab/ui-components';
import { useEffect, useRef, useState } from 'react';
import type { JSX } from 'react';

import type { ChatInfo } from '../api/events';
import { notifyOnError } from '../api/notifyOnError';
import { quietly } from '../api/reads';
import { nameOfPath } from '../common/deleted';
import { useRested } from '../common/rested';
import { MenuButton } from './controls';
import { useChat, useSelector, useServices } from './services';
import { renameChat } from './Header';
import { save as saveAs } from './browser';

interface IProps {
  /** The key of the current chat in the store. */
  chat: string;
}

/** The list of chats, to search, open, rename, export and delete them. */
export function History({ chat: key }: IProps): JSX.Element {
  const { chats, controller, trans } = useServices();
  const list = useSelector(state => state.chats);
  const current = useChat(key, ({ id }) => id);
  const [query, setQuery] = useState('');
  const search = useRef<HTMLInputElement>(null);
  const [matching, setMatching] = useState<ReadonlySet<string>>(new Set());
  // The server searches the messages, too.
  const asked = useRested(query.trim(), '');
  useEffect(() => {
    let isWanted = asked !== '';
    if (isWanted) {
      void quietly(chats.api.chats(asked)).then(
        found => isWanted && setMatching(new Set(found?.map(({ id }) => id)))
      );
    }
    return () => {
      isWanted = false;
    };
  }, [asked, chats]);
  const words = query.toLowerCase().split(/\s+/);
  const found = list.filter(chat => {
    const text = `${chat.title} ${nameOfPath(chat.notebook ?? '', trans)}`.toLowerCase();
    const isMatching = query.trim() === asked && matching.has(chat.id);
    return isMatching || words.every(word => text.includes(word));
  });
  const none =
    query.trim() === '' ? trans.__('No chats.') : trans.__('No chat matches “%1”.', query);
  return (
    <div
      className="tk-History"
      role="region"
      aria-label={trans.__('History')}
      onKeyDown={event => {
        if (event.key === 'Escape' && !event.nativeEvent.isComposing) {
          controller.closeHistory();
        }
      }}
    >
      <input
        ref={search}
        type="search"
        className="tk-Search"
        aria-label={trans.__('Search chats')}
        placeholder={trans.__('Search chats')}
        value={query}
        autoFocus
        onChange={event => setQuery(event.target.value)}
      />
      {found.length === 0 && (
        <p className="tk-Empty" aria-hidden="true">
          {none}
        </p>
      )}
      <ul className="tk-History-list" aria-label={trans.__('Chats')}>
        {found.map(chat => (
          <Entry
            key={chat.id}
            chat={chat}
            isCurrent={chat.id === current}
            onRemoved={id => {
              search.current?.focus();
              controller.removed(id);
            }}
          />
        ))}
      </ul>
      <div className="tk-Announced" role="status">
        {found.length === 0 ? none : query !== '' && trans._n('%1 chat', '%1 chats', found.length)}
      </div>
    </div>
  );
}

interface IEntryProps {
  chat: ChatInfo;
  isCurrent: boolean;
  onRemoved: (id: string) => void;
}

function Entry({ chat, isCurrent, onRemoved }: IEntryProps): JSX.Element {
  const { chats, controller, trans } = useServices();
  const remove = async (): Promise<void> => {
    const answer = await showDialog({
      title: trans.__('Delete this chat?'),
      body: trans.__(
        '“%1” will be permanently deleted. Changes in notebooks are kept.',
        chat.title
      ),
      buttons: [Dialog.cancelButton(), Dialog.warnButton({ label: trans.__('Delete') })]
    });
    if (answer.button.accept && (await notifyOnError(chats.remove(chat.id)))) {
      onRemoved(chat.id);
    }
  };
  const save = async (format: 'markdown' | 'notebook'): Promise<void> => {
    const kind = format === 'markdown' ? 'md' : 'ipynb';
    const exported = chats.api.export(chat.id, format);
    const saved = exported.then(file => saveAs(file, `${chat.title || 'chat'}.${kind}`));
    await notifyOnError(saved);
  };
  return (
    <li className="tk-Entry">
      <button
        type="button"
        className="tk-Entry-open"
        aria-current={isCurrent}
        onClick={() => controller.open(chat.id)}
      >
        <span className="tk-Entry-title">
          {chat.busy && <span className="tk-Dot" />}
          {chat.title}
        </span>
        <span className="tk-Entry-note">
          {[Time.formatHuman(new Date(chat.updated * 1000)), nameOfPath(chat.notebook ?? '', trans)]
            .filter(Boolean)
            .join(' · ')}
        </span>
      </button>
      <MenuButton
        className="tk-ToolButton tk-Entry-menu"
        icon={ellipsesIcon}
        label={trans.__('More about %1', chat.title)}
        items={[
          { label: trans.__('Rename…'), run: () => void renameChat(chat, chats, trans) },
          { label: trans.__('Export as Markdown'), run: () => void save('markdown') },
          { label: trans.__('Export as a notebook'), run: () => void save('notebook') },
          { label: trans.__('Delete…'), run: () => void remove() }
        ]}
      />
    </li>
  );
}
