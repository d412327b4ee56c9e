import { Notification } from '@jupyterlab/apputils';
import { NotebookModelFactory } from '@jupyterlab/notebook';
import { RenderMimeRegistry, standardRendererFactories } from '@jupyterlab/rendermime';
import { nullTranslator } from '@jupyterlab/translation';

import { type Feature, forgetResults, report, switchedOff, works } from '../features';
import { uses } from '../uses';
import { type ITested, runSelfTest } from './run';
import { sentence } from './sentences';

const trans = nullTranslator.load('');
const rendermime = new RenderMimeRegistry({ initialFactories: standardRendererFactories });

/** A Jupyter application; without notebooks, unless it makes their models. */
function tested(factory?: object): ITested {
  const docRegistry = { getModelFactory: () => factory, getWidgetFactory: () => undefined };
  const app = { docRegistry, name: 'Jupyter', version: '9.0.0', serviceManager: {} };
  return { app: app as unknown as ITested['app'], rendermime, parser: null, uses, trans };
}

let messages: string[];
beforeEach(() => {
  forgetResults();
  messages = [];
  jest.spyOn(Notification, 'warning').mockImplementation(message => {
    messages.push(message);
    return '';
  });
  jest.spyOn(console, 'warn').mockImplementation(() => undefined);
  jest.spyOn(console, 'debug').mockImplementation(() => undefined);
  Object.assign(performance, { measure: () => ({ duration: 1 }) });
});
afterEach(() => jest.restoreAllMocks());

it('says nothing where all works', async () => {
  await runSelfTest(tested());
  expect([messages, switchedOff()]).toEqual([[], []]);
});

it('says of each feature once that it is switched off, with the version', async () => {
  report('diagrams', false);
  report('width', false);
  await runSelfTest(tested());
  const where = 'Claude’s extension in Jupyter 9.0.0:';
  expect(messages).toEqual([
    `${where} ${sentence('diagrams', trans)}`,
    `${where} ${sentence('width', trans)}`
  ]);
  report('width', false);
  expect(messages).toHaveLength(2);
  // eslint-disable-next-line no-console
  expect(console.warn).toHaveBeenCalledTimes(2);
});

it('says what fails later, when that happens', async () => {
  await runSelfTest(tested());
  report('dragging', false);
  expect(messages).toHaveLength(1);
  expect(messages[0]).toContain(sentence('dragging', trans));
});

it('switches off what a check belongs to that throws', async () => {
  const createNew = (): never => {
    throw new TypeError('createNew is not what it was');
  };
  await runSelfTest(tested({ createNew }));
  expect(switchedOff()).toEqual(['trust', 'quiet-trust', 'tabs']);
});

it('switches off what a check belongs to that does not end', async () => {
  jest.useFakeTimers({ doNotFake: ['performance'] });
  report('diagrams', true);
  const ended = runSelfTest({
    ...tested(),
    parser: { render: () => new Promise(() => undefined) }
  });
  await jest.advanceTimersByTimeAsync(30_000);
  await ended;
  jest.useRealTimers();
  expect(switchedOff()).toEqual(['diagrams']);
});

it('trusts the quiet way only after the check', async () => {
  expect(works('quiet-trust')).toBeUndefined();
  await runSelfTest(tested(new NotebookModelFactory()));
  expect(works('quiet-trust')).toBe(true);
});

it('has a sentence for each feature, which a notification shows whole', () => {
  const features: Record<Feature, true> = {
    trust: true,
    'quiet-trust': true,
    images: true,
    diagrams: true,
    commands: true,
    tabs: true,
    prompts: true,
    controls: true,
    looks: true,
    dragging: true,
    width: true,
    rooms: true
  };
  const sentences = Object.keys(features).map(each => sentence(each as Feature, trans));
  expect(new Set(sentences).size).toBe(sentences.length);
  const where = 'Claude’s extension in JupyterLab 10.10.10rc10: ';
  // JupyterLab cuts after 140 characters.
  expect(sentences.filter(each => where.length + each.length > 140)).toEqual([]);
});
