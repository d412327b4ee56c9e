import { FileDialog } from '@jupyterlab/filebrowser';
import { runIcon, stopIcon } from '@jupyterlab/ui-components';
import { useEffect, useId, useLayoutEffect, useRef, useState } from 'react';
import type { ClipboardEvent, DragEvent, JSX, KeyboardEvent } from 'react';

import { type Mode, MODES } from '../api/events';
import { dollars, tokens } from '../chat/describe';
import { total } from '../chat/state';
import { Chips } from './Chips';
import { Completions, useCompleter } from './Completer';
import type { IOption, IPartial } from './completion';
import { useDesk, useSignal } from './desk';
import { type IAttached, type IDraft, pictureOf } from './draft';
import type { PanelModel } from './model';
import { ToolButton } from './ToolButton';

/** Where a person writes, and what goes with it. */
export function Composer({ model }: { model: PanelModel }): JSX.Element {
  const { chat, draft } = model;
  const onChange = (change: Partial<IDraft>): void => model.change(change);
  const { commands, preferences, surroundings, trans } = useDesk();
  useSignal(surroundings.changed);
  useSignal(chat.changed);
  const box = useRef<HTMLTextAreaElement>(null);
  const list = useId();
  const [cursor, setCursor] = useState(0);
  const attach = (more: (IAttached | null)[]): void => {
    const found = more.filter(each => each !== null);
    onChange({ attached: [...model.draft.attached, ...found].slice(0, 20) });
  };
  const choose = (option: IOption, partial: IPartial): void => {
    const text = draft.text.slice(0, partial.start) + option.text + draft.text.slice(cursor);
    onChange({ text });
    setCursor(partial.start + option.text.length);
    if (option.attached !== undefined) {
      onChange({ attached: [...model.draft.attached, option.attached] });
    }
    if (option.command !== undefined) {
      void commands.execute(option.command);
    }
    box.current?.focus();
  };
  const completer = useCompleter(draft.text, cursor, choose);

  useLayoutEffect(() => fit(box.current), [draft.text]);
  useEffect(() => {
    if (box.current !== null && document.activeElement === box.current) {
      box.current.setSelectionRange(cursor, cursor);
    }
    // Only where a choice moved it.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [draft.text]);

  const onKeyDown = (event: KeyboardEvent<HTMLTextAreaElement>): void => {
    if (event.nativeEvent.isComposing) {
      return;
    }
    if (completer.onKey(event)) {
      event.preventDefault();
      event.stopPropagation();
    } else if (event.key === 'Enter' && sends(event, preferences.now.sendWith)) {
      event.preventDefault();
      void model.submit();
    } else if (event.key === 'Escape' && chat.busy) {
      event.preventDefault();
      void chat.stop();
    } else if (event.key === 'ArrowUp' && draft.text === '') {
      const questions = event.currentTarget.closest('.tk-Chat')?.querySelectorAll('.tk-Question');
      const question = questions?.[0];
      if (question instanceof HTMLElement) {
        event.preventDefault();
        question.focus();
      }
    }
  };
  const onPaste = (event: ClipboardEvent): void => {
    if (event.clipboardData.files.length > 0) {
      event.preventDefault();
      void Promise.all([...event.clipboardData.files].map(pictureOf)).then(attach);
    }
  };
  const onDrop = (event: DragEvent): void => {
    if (event.dataTransfer.files.length > 0) {
      event.preventDefault();
      void Promise.all([...event.dataTransfer.files].map(pictureOf)).then(attach);
    }
  };
  const onAttach = async (): Promise<void> => {
    if (surroundings.documents === null) {
      return;
    }
    const { value } = await FileDialog.getOpenFiles({
      manager: surroundings.documents,
      title: trans.__('Attach files')
    });
    attach(
      (value ?? []).map(file => ({
        label: file.path,
        attachment: { kind: 'file', path: file.path }
      }))
    );
    box.current?.focus();
  };

  return (
    <div className="tk-Composer" onDragOver={event => event.preventDefault()} onDrop={onDrop}>
      <Completions id={list} completer={completer} choose={choose} />
      <Chips
        draft={draft}
        seen={surroundings.seen}
        activeCell={preferences.now.activeCell}
        onChange={onChange}
        onAttach={() => void onAttach()}
      />
      <textarea
        ref={box}
        className="tk-Box"
        aria-label={trans.__('Message')}
        aria-controls={completer.options.length > 0 ? list : undefined}
        aria-activedescendant={
          completer.options.length > 0 ? `${list}-${completer.active}` : undefined
        }
        aria-autocomplete="list"
        placeholder={trans.__('Ask Claude; @ names a cell or file, / a command')}
        rows={1}
        value={draft.text}
        onChange={event => {
          setCursor(event.target.selectionStart);
          onChange({ text: event.target.value });
        }}
        onSelect={event => setCursor(event.currentTarget.selectionStart)}
        onKeyDown={onKeyDown}
        onPaste={onPaste}
      />
      <Bar model={model} />
    </div>
  );
}

/** Mode, model, what it has cost, and the way to send or to stop. */
function Bar({ model }: { model: PanelModel }): JSX.Element {
  const { chat, draft, mode } = model;
  const { chats, preferences, trans } = useDesk();
  useSignal(chats.changed);
  const names: Record<Mode, [string, string]> = {
    plan: [trans.__('Plan'), trans.__('Reads, and answers with a plan')],
    ask: [trans.__('Ask'), trans.__('Asks before it changes or runs anything')],
    edit: [trans.__('Edit'), trans.__('Changes cells, and asks before it runs code')],
    auto: [trans.__('Auto'), trans.__('Changes and runs without asking')]
  };
  const models = chats.models?.models ?? [];
  const { tokens: count, cost } = total(chat.state);
  const writes = draft.text.trim() !== '';
  return (
    <div className="tk-Bar">
      <select
        className="tk-Select"
        aria-label={trans.__('Mode')}
        title={names[mode][1]}
        value={mode}
        onChange={event => model.choose({ mode: event.target.value as Mode })}
      >
        {MODES.map(each => (
          <option key={each} value={each} title={names[each][1]}>
            {names[each][0]}
          </option>
        ))}
      </select>
      {models.length > 0 && (
        <select
          className="tk-Select"
          aria-label={trans.__('Model')}
          title={chats.models?.label}
          value={model.answerer || chats.models?.model}
          onChange={event => model.choose({ answerer: event.target.value })}
        >
          {models.map(each => (
            <option key={each}>{each}</option>
          ))}
        </select>
      )}
      <span className="tk-Bar-cost">
        {preferences.now.showCost && count > 0
          ? [tokens(count), ...(cost === null ? [] : [dollars(cost)])].join(' · ')
          : ''}
      </span>
      {chat.busy && (
        <ToolButton icon={stopIcon} label={trans.__('Stop')} onClick={() => void chat.stop()} />
      )}
      {(!chat.busy || writes) && (
        <ToolButton
          icon={runIcon}
          label={chat.busy ? trans.__('Send after this') : trans.__('Send')}
          disabled={!writes}
          onClick={() => void model.submit()}
        />
      )}
    </div>
  );
}

function sends(event: KeyboardEvent, key: 'Enter' | 'Accel Enter'): boolean {
  const accel = event.ctrlKey || event.metaKey;
  return key === 'Enter' ? !event.shiftKey && !event.altKey : accel;
}

/** The box is as high as its text, up to what its style allows. */
function fit(box: HTMLTextAreaElement | null): void {
  if (box !== null) {
    box.style.height = 'auto';
    box.style.height = `${box.scrollHeight + 2}px`;
  }
}
