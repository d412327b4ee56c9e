import { fireEvent } from '@testing-library/react';

import { ApiError, unreachable } from '../api/client';
import { CALL, DONE, RESULT } from '../testing/events';
import { Stage } from '../testing/panel';
import { button, unfold } from '../testing/screen';

it('says why the full text of an output is not shown, until it is', async () => {
  const stage = new Stage();
  await stage.say('Run it.');
  const called = { ...CALL, tool: 'execute_ipython', arguments: { code: '' } } as const;
  const run = { status: 'ok', output: 'line 0\n…', artifact: 'f', total_lines: 60 };
  const structured = { notebook: 'a.ipynb', runs: [run] };
  await stage.happens(called, { ...RESULT, tool: 'execute_ipython', structured }, DONE);
  unfold(stage.node.querySelector('.tk-Call details') as HTMLDetailsElement);
  await stage.settle();
  const problem = { code: 'not_found', message: 'No `f`.', hint: '', retryable: false };
  const answers = [
    Promise.reject(unreachable()),
    Promise.reject(new ApiError(problem, 404)),
    Promise.resolve({ size: 9, text: () => Promise.resolve('all of f') } as Blob)
  ];
  answers.forEach(each => void each.catch(() => undefined));
  stage.api.artifact = () => answers.shift() as Promise<Blob>;
  const said: (string | undefined)[] = [];
  while (answers.length > 0) {
    fireEvent.click(button('Show all 60 lines'));
    await stage.settle();
    said.push(stage.node.querySelector('.tk-Call [role="status"]')?.textContent);
  }
  expect(said).toEqual([
    'The server cannot be reached.',
    'The full output is no longer stored.',
    undefined
  ]);
  expect(stage.node.textContent).toContain('all of f');
});
