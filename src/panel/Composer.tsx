import { FileDialog } from '@jupyterlab/filebrowser';
import { closeIcon } from '@jupyterlab/ui-components';
import { useEffect, useId, useLayoutEffect, useRef, useState } from 'react';
import type { ClipboardEvent, JSX, KeyboardEvent } from 'react';

import { attachLocalFile, attachServerFile, refusal } from './attachments';
import { ComposerBar, SendButtons } from './ComposerBar';
import { ContextChips, ICONS, PlanChip } from './ContextChips';
import { type ICompleter, type ICompletionPrefix, useCompleter } from './completion';
import type { IOption } from './pointing';
import { requestCards } from './Question';
import { ToolButton } from './controls';
import { useChat, useSelector, useServices } from './services';
import { draftOf, type IPanelState, modelOf, offerOf } from '../state/app';
import { isBusy } from '../state/chat';
import { settled } from '../state/compose';

interface IProps {
  panel: IPanelState;
}

/** The commands of an agent that has none. */
const NONE: readonly [] = [];

/** The message box with its context, completions and buttons. */
export function Composer({ panel }: IProps): JSX.Element {
  const { controller, notebook, trans } = useServices();
  const turns = useChat(panel.chat, ({ turns }) => turns);
  const seen = useSelector(state => state.seen);
  const preferences = useSelector(state => state.preferences);
  const offer = useSelector(state => offerOf(state, panel));
  const agent = useSelector(state => state.models?.agents?.[modelOf(state, panel)]);
  const draft = settled(
    useSelector(state => draftOf(state, panel)),
    turns
  );
  const { kind, turn } = draft.instead ?? {};
  const box = useRef<HTMLTextAreaElement>(null);
  const list = useId();
  const [cursor, setCursor] = useState(draft.text.length);
  const chosen = useRef<number | null>(null);
  const choose = (option: IOption, partial: ICompletionPrefix): void => {
    const text = draft.text.slice(0, partial.start) + option.text + draft.text.slice(cursor);
    controller.change({ text });
    chosen.current = partial.start + option.text.length;
    setCursor(chosen.current);
    if (option.attached !== undefined) {
      const { attachment } = option.attached;
      controller.attach([
        attachment.kind === 'file'
          ? attachServerFile(notebook.contents, attachment.path)
          : option.attached
      ]);
    }
    box.current?.focus();
  };
  const replaced = kind === 'edit' ? (turns.find(each => each.id === turn)?.text ?? null) : null;
  const completer = useCompleter(draft.text, cursor, offer?.commands ?? NONE, choose);

  useLayoutEffect(() => {
    if (chosen.current !== null) {
      box.current?.setSelectionRange(chosen.current, chosen.current);
      chosen.current = null;
    }
  }, [draft.text]);

  const onKeyDown = (event: KeyboardEvent<HTMLTextAreaElement>): void => {
    if (event.nativeEvent.isComposing) {
      return;
    }
    if (completer.onKey(event)) {
      event.preventDefault();
      event.stopPropagation();
    } else if (event.key === 'Enter' && sends(event, preferences.sendWith)) {
      event.preventDefault();
      // A key that is held was pressed somewhere else.
      if (!event.repeat) {
        void controller.submit();
      }
    } else if (event.key === 'Escape' && isBusy({ turns })) {
      event.preventDefault();
      if (!event.repeat) {
        void controller.chat.stop();
      }
    } else if (event.key === 'ArrowUp' && draft.text === '') {
      const [card] = requestCards(event.currentTarget.closest('.tk-Chat') ?? document);
      if (card !== undefined) {
        event.preventDefault();
        card.focus();
      }
    }
  };
  const onPaste = (event: ClipboardEvent): void => {
    const { files, types } = event.clipboardData;
    // A picture next to both is a rendering of copied cells.
    const isText = ['text/plain', 'text/html'].every(type => types.includes(type));
    if (files.length > 0 && !isText) {
      event.preventDefault();
      controller.attach([...files].map(attachLocalFile));
    }
  };
  const onAttach = async (): Promise<void> => {
    if (notebook.documents === null) {
      return;
    }
    const { value } = await FileDialog.getOpenFiles({
      manager: notebook.documents,
      title: trans.__('Attach files')
    });
    const { contents } = notebook;
    controller.attach((value ?? []).map(file => attachServerFile(contents, file.path)));
  };

  const placeholder =
    kind === 'revise'
      ? trans.__('Describe the changes to the plan')
      : trans.__('Ask %1… (@ for context, / for commands)', agent ?? trans.__('Claude'));
  return (
    <div className="tk-Composer">
      <div role="status">
        {panel.refused.length > 0 && (
          <div className="tk-Notice tk-mod-refused">
            {refusal(panel.refused, trans)}
            <ToolButton
              icon={closeIcon}
              label={trans.__('Dismiss')}
              onClick={() => controller.dismissRefused()}
            />
          </div>
        )}
      </div>
      {completer.options.length + completer.notice.length > 0 && (
        <Completions id={list} completer={completer} choose={choose} />
      )}
      {kind === 'revise' ? (
        <PlanChip />
      ) : (
        <ContextChips
          draft={draft}
          replaced={replaced}
          seen={seen}
          activeCell={preferences.activeCell}
          onAttach={() => void onAttach()}
        />
      )}
      <div className="tk-BoxFrame tk-Grow" data-text={draft.text || placeholder}>
        <textarea
          ref={box}
          className="tk-Box"
          aria-label={trans.__('Message')}
          aria-controls={completer.options.length > 0 ? list : undefined}
          aria-activedescendant={
            completer.options.length > 0 ? `${list}-${completer.active}` : undefined
          }
          aria-autocomplete="list"
          placeholder={placeholder}
          rows={1}
          autoFocus={panel.opened}
          value={draft.text}
          onChange={event => {
            controller.change({ text: event.target.value });
            setCursor(event.target.selectionStart);
          }}
          onSelect={event => setCursor(event.currentTarget.selectionStart)}
          onKeyDown={onKeyDown}
          onPaste={onPaste}
        />
        <SendButtons panel={panel} />
      </div>
      <ComposerBar panel={panel} />
    </div>
  );
}

function sends(event: KeyboardEvent, key: 'Enter' | 'Accel Enter'): boolean {
  const accel = event.ctrlKey || event.metaKey;
  return key === 'Enter' ? !event.shiftKey && !event.altKey : accel;
}

interface ICompletionsProps {
  id: string;
  completer: ICompleter;
  choose: (option: IOption, partial: ICompletionPrefix) => void;
}

function OptionIcon({ option }: { option: IOption }): JSX.Element | null {
  const icon = option.attached && ICONS[option.attached.attachment.kind];
  return icon ? <icon.react tag="span" width="12px" height="12px" /> : null;
}

/** The list of completions above the message box. */
function Completions({ id, completer, choose }: ICompletionsProps): JSX.Element | null {
  const { trans } = useServices();
  const { options, active, partial, notice } = completer;
  const list = useRef<HTMLUListElement>(null);
  useEffect(() => {
    list.current?.children[active]?.scrollIntoView({ block: 'nearest' });
  }, [active, options]);
  if (partial === null) {
    return null;
  }
  return (
    <div className="tk-Completions">
      {options.length > 0 && (
        <ul ref={list} id={id} role="listbox" aria-label={trans.__('Suggestions')}>
          {options.map((option, place) => (
            <li
              key={`${option.label} ${place}`}
              id={`${id}-${place}`}
              role="option"
              aria-selected={place === active}
              className="tk-Completion"
              onMouseDown={event => {
                event.preventDefault();
                choose(option, partial);
              }}
            >
              <OptionIcon option={option} />
              <span>{option.label}</span>
              <span className="tk-Completion-note">{option.note}</span>
            </li>
          ))}
        </ul>
      )}
      <div role="status" className="tk-Completion-note">
        {notice}
      </div>
    </div>
  );
}
