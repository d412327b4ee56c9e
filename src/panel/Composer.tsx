import { FileDialog } from '@jupyterlab/filebrowser';
import { closeIcon } from '@jupyterlab/ui-components';
import { useId, useLayoutEffect, useReducer, useRef, useState } from 'react';
import type { ClipboardEvent, JSX, KeyboardEvent } from 'react';

import { ofDesktop, ofServer, refusal } from './attaching';
import { Bar } from './Bar';
import { Chips, PlanChip } from './Chips';
import { Completions, useCompleter } from './Completer';
import type { IOption, IPartial } from './completion';
import { useDesk, useSignal } from './desk';
import type { IDraft } from './draft';
import { useFitting } from './fitting';
import type { PanelModel } from './model';
import { ToolButton } from './ToolButton';

/** Where a person writes, and what goes with it. */
export function Composer({ model }: { model: PanelModel }): JSX.Element {
  const { chat, draft } = model;
  const revises = model.revised !== null;
  const onChange = (change: Partial<IDraft>): void => model.change(change);
  const { commands, preferences, surroundings, trans } = useDesk();
  useSignal(surroundings.changed);
  useSignal(chat.changed);
  const box = useRef<HTMLTextAreaElement>(null);
  const list = useId();
  const [cursor, setCursor] = useState(draft.text.length);
  // React puts the old text back where a key's is not rendered at once.
  const [, renderNow] = useReducer((times: number) => times + 1, 0);
  const chosen = useRef<number | null>(null);
  const choose = (option: IOption, partial: IPartial): void => {
    const text = draft.text.slice(0, partial.start) + option.text + draft.text.slice(cursor);
    onChange({ text });
    renderNow();
    chosen.current = partial.start + option.text.length;
    setCursor(chosen.current);
    if (option.attached !== undefined) {
      const { attachment } = option.attached;
      void (
        attachment.kind === 'file'
          ? ofServer(surroundings.contents, attachment.path)
          : Promise.resolve(option.attached)
      ).then(found => model.attach([found]));
    }
    if (option.command !== undefined) {
      void commands.execute(option.command);
    }
    box.current?.focus();
  };
  const completer = useCompleter(draft.text, cursor, choose);

  useFitting(box, draft.text);
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
      void Promise.all([...event.clipboardData.files].map(ofDesktop)).then(found =>
        model.attach(found)
      );
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
    const { contents } = surroundings;
    model.attach(await Promise.all((value ?? []).map(file => ofServer(contents, file.path))));
    box.current?.focus();
  };

  return (
    <div className="tk-Composer">
      <div role="status">
        {model.refused.length > 0 && (
          <div className="tk-Notice tk-mod-refused">
            {refusal(model.refused, trans)}
            <ToolButton
              icon={closeIcon}
              label={trans.__('Dismiss')}
              onClick={() => model.dismissRefused()}
            />
          </div>
        )}
      </div>
      <Completions id={list} completer={completer} choose={choose} />
      {revises ? (
        <PlanChip onRemove={() => model.revise(null)} />
      ) : (
        <Chips
          draft={draft}
          replaced={model.replaced?.text ?? null}
          seen={surroundings.seen}
          activeCell={preferences.now.activeCell}
          onChange={change => model.change(change, true)}
          onAttach={() => void onAttach()}
          onNew={() => model.editNone()}
        />
      )}
      <textarea
        ref={box}
        className="tk-Box"
        aria-label={trans.__('Message')}
        aria-controls={completer.options.length > 0 ? list : undefined}
        aria-activedescendant={
          completer.options.length > 0 ? `${list}-${completer.active}` : undefined
        }
        aria-autocomplete="list"
        placeholder={
          revises
            ? trans.__('What should be different?')
            : trans.__('Ask Claude; @ names a cell or file, / a command')
        }
        rows={1}
        autoFocus={model.opened}
        value={draft.text}
        onChange={event => {
          onChange({ text: event.target.value });
          renderNow();
          setCursor(event.target.selectionStart);
        }}
        onSelect={event => setCursor(event.currentTarget.selectionStart)}
        onKeyDown={onKeyDown}
        onPaste={onPaste}
      />
      <Bar model={model} />
    </div>
  );
}

function sends(event: KeyboardEvent, key: 'Enter' | 'Accel Enter'): boolean {
  const accel = event.ctrlKey || event.metaKey;
  return key === 'Enter' ? !event.shiftKey && !event.altKey : accel;
}
