import { YNotebook } from '@jupyter/ydoc';
import { nullTranslator } from '@jupyterlab/translation';
import { act, cleanup, fireEvent, render, screen } from '@testing-library/react';

import { ApiError } from '../api/client';
import type { EditedCell } from '../api/events';
import { expectWhole, TEXTS } from '../testing/texts';
import { NEW, type Propose, PromptView } from './CellPrompt';
import { writeSource } from './cellSource';

const trans = nullTranslator.load('tk-ai-extension');

type SharedCell = ReturnType<YNotebook['addCell']>;

interface IAsked {
  about: Parameters<Propose>[0];
  signal: AbortSignal;
  answer: (found: Partial<EditedCell>) => Promise<void>;
  fail: (error: Error) => Promise<void>;
}

/** Does something, and lets the view follow. */
function settled(done: () => void): Promise<void> {
  return act(() => {
    done();
    return Promise.resolve();
  });
}

/** An open prompt of a cell, and what was asked. */
function stage(source: string) {
  const shared = new YNotebook().addCell({ cell_type: 'code', source });
  const asked: IAsked[] = [];
  const propose: Propose = (about, signal) =>
    new Promise((resolve, reject) => {
      asked.push({
        about,
        signal,
        answer: found => settled(() => resolve({ source: '', ...found })),
        fail: error => settled(() => reject(error))
      });
    });
  const onClose = jest.fn();
  const cell = { model: { sharedModel: shared, type: 'code' }, editor: null } as never;
  const { unmount } = render(
    <PromptView {...{ cell, propose, trans, onClose, state: { current: NEW }, takesFocus: true }} />
  );
  const write = (text: string): void => {
    fireEvent.change(box(), { target: { value: text } });
    fireEvent.keyDown(box(), { key: 'Enter' });
  };
  return { shared, asked, onClose, unmount, write };
}

// The versions of a diff are text boxes, too.
const box = (): HTMLTextAreaElement =>
  screen.getByRole('textbox', { name: /^(Describe a|Refine the) change/ });
const press = (key: string, more: object = {}): void => {
  fireEvent.keyDown(box(), { key, ...more });
};
const shown = (): string => document.querySelector('.tk-Review-merge')?.textContent ?? '';

// What Yjs says of cells that are made here as JupyterLab makes them.
beforeEach(() => void jest.spyOn(console, 'warn').mockReturnValue());
afterEach(cleanup);

describe('a prompt in a cell', () => {
  it('has the focus, sends with Enter and writes what is accepted', async () => {
    const { shared, asked, onClose, write } = stage('x = [2, 1]');
    expect(document.activeElement).toBe(box());
    write('Sort it');
    expect(asked[0]?.about).toEqual({ prompt: 'Sort it', source: 'x = [2, 1]', earlier: [] });
    expect(screen.getByRole('status').textContent).toContain('Writing');
    await asked[0]?.answer({ source: 'x = sorted([2, 1])' });
    expect(shown()).toContain('sorted');
    expect(shared.source).toBe('x = [2, 1]');
    // Enter alone accepts nothing.
    press('Enter');
    expect(onClose).not.toHaveBeenCalled();
    press('Enter', { ctrlKey: true });
    expect(shared.source).toBe('x = sorted([2, 1])');
    expect(onClose).toHaveBeenCalledTimes(1);
  });

  it('refines a proposal with the prompts before', async () => {
    const { asked, write } = stage('x');
    write('Add one');
    await asked[0]?.answer({ source: 'x + 1' });
    write('No, two');
    expect(asked[1]?.about).toEqual({
      prompt: 'No, two',
      source: 'x',
      earlier: [{ prompt: 'Add one', source: 'x + 1' }]
    });
    await asked[1]?.answer({ source: 'x + 2' });
    expect(shown()).toContain('x + 2');
  });

  it('writes nothing if the cell has changed since, and keeps the prompt', async () => {
    const { shared, asked, onClose, write } = stage('x');
    write('Add one');
    await asked[0]?.answer({ source: 'x + 1' });
    shared.setSource('y');
    fireEvent.click(screen.getByRole('button', { name: 'Accept' }));
    expect(shared.source).toBe('y');
    expect(onClose).not.toHaveBeenCalled();
    expect(screen.getByRole('alert').textContent).toContain('Nothing was written');
    expect(box().value).toBe('Add one');
    press('Enter');
    expect(asked[1]?.about).toEqual({ prompt: 'Add one', source: 'y', earlier: [] });
  });

  it('stops with Escape, and then closes', async () => {
    const { asked, onClose, write } = stage('x');
    write('Add one');
    press('Escape');
    expect(asked[0]?.signal.aborted).toBe(true);
    expect(onClose).not.toHaveBeenCalled();
    await asked[0]?.answer({ source: 'x + 1' });
    expect(shown()).toBe('');
    expect(box().value).toBe('Add one');
    press('Escape');
    expect(onClose).toHaveBeenCalledTimes(1);
  });

  it('cancels its request when it is closed', () => {
    const { asked, unmount, write } = stage('x');
    write('Add one');
    unmount();
    expect(asked[0]?.signal.aborted).toBe(true);
  });

  it('shows an error with what to do, and the prompt can be sent again', async () => {
    const { asked, write } = stage('x');
    write('Add one');
    const problem = { code: 'model_failed', message: 'Busy.', hint: 'Try again.', retryable: true };
    await asked[0]?.fail(new ApiError(problem));
    expect(screen.getByRole('alert').textContent).toBe('Busy. Try again.');
    press('Enter');
    expect(asked[1]?.about.prompt).toBe('Add one');
    expect(screen.queryByRole('alert')).toBeNull();
  });

  it('shows that nothing changes', async () => {
    const { asked, write } = stage('x');
    write('Nothing');
    await asked[0]?.answer({ source: 'x' });
    expect(screen.getByRole('status').textContent).toContain('no change');
  });

  it('sends nothing while a word is composed, or without words', () => {
    const { asked, write } = stage('x');
    write('   ');
    fireEvent.change(box(), { target: { value: 'に' } });
    fireEvent.keyDown(box(), { key: 'Enter', isComposing: true });
    press('Enter', { shiftKey: true });
    expect(asked).toEqual([]);
  });
});

describe('the source of a cell', () => {
  const undo = (shared: SharedCell): string => {
    shared.undo();
    return shared.source;
  };

  it('is replaced in one step of its undo stack', () => {
    const shared = new YNotebook().addCell({ cell_type: 'code', source: 'a\nb\nc' });
    shared.updateSource(5, 5, '!');
    expect(writeSource(shared, 'a\nb\nc!', 'A\nb\nC!')).toBe(true);
    shared.updateSource(6, 6, '?');
    expect([shared.source, undo(shared), undo(shared)]).toEqual([
      'A\nb\nC!?',
      'A\nb\nC!',
      'a\nb\nc!'
    ]);
  });

  it('is written without half a surrogate pair', () => {
    for (const old of TEXTS) {
      const shared = new YNotebook().addCell({ cell_type: 'code' });
      for (const now of TEXTS) {
        shared.setSource(old);
        writeSource(shared, old, now);
        expect(shared.source).toBe(now);
        expectWhole(shared.source);
      }
    }
  });
});
