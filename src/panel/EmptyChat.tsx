import type { JSX } from 'react';

import { numberOf } from '../common/position';
import type { IAbout } from '../state/compose';
import type { IPromptSubjects } from './notebook';
import { Button } from './controls';
import { useSelector, useServices } from './services';

/** The start page of an empty chat, with suggested prompts. */
export function EmptyChat(): JSX.Element {
  const { commands, controller, notebook, trans } = useServices();
  const seen = useSelector(state => state.seen);
  const tour = useSelector(state => state.models?.provider === 'tour');
  return (
    <div className="tk-Start">
      <p className="tk-Start-title">{trans.__('Claude can work in your notebook')}</p>
      <p>
        {seen === null
          ? trans.__('Open a notebook and ask. Claude reads it, edits cells and runs them.')
          : trans.__('Ask about %1. Claude reads it, edits cells and runs them.', seen.notebook)}
      </p>
      {tour && (
        <>
          <p>{trans.__('No model is connected yet. A short tour shows what Claude can do.')}</p>
          <div className="tk-Start-buttons">
            <Button primary onClick={() => void controller.ask(trans.__('Take the tour'))}>
              {trans.__('Take the tour')}
            </Button>
            <Button onClick={() => void commands.execute('tk-ai:connect')}>
              {trans.__('Connect a model')}
            </Button>
          </div>
        </>
      )}
      {!tour && seen !== null && (
        <div className="tk-Start-buttons">
          {suggestedPrompts(notebook.promptSubjects, seen.notebook, trans).map(([text, about]) => (
            <Button key={text} onClick={() => void controller.ask(text, about)}>
              {text}
            </Button>
          ))}
        </div>
      )}
    </div>
  );
}

/** Return three suggested prompts for this notebook, with the cells that they are about. */
function suggestedPrompts(
  { failed, table }: IPromptSubjects,
  notebook: string,
  trans: ReturnType<typeof useServices>['trans']
): [string, (IAbout | null)?][] {
  return [
    [trans.__('Explain this notebook')],
    failed !== null
      ? [
          trans.__('Fix the failing cell %1', numberOf(failed.index)),
          { notebook, cells: [failed.id] }
        ]
      : [trans.__('Run all cells and summarize the results')],
    [
      table !== null
        ? trans.__('Plot the most interesting part of %1', table)
        : trans.__('Plot the most interesting part of this data')
    ]
  ];
}
