import { Dialog, ReactWidget, showDialog } from '@jupyterlab/apputils';

import { say } from '../api/sentences';
import type { IPanelServices } from './services';

/** Show the connected model, and how to connect another one. */
export async function showConnect(services: IPanelServices): Promise<void> {
  const { chats, store, trans } = services;
  await chats.refresh();
  const { models } = store.state;
  const ways: [string, string][] = [
    ['ANTHROPIC_API_KEY', trans.__('an Anthropic API key')],
    ['CLAUDE_CODE_OAUTH_TOKEN', trans.__('a subscription token, printed by `claude setup-token`')],
    [
      'ANTHROPIC_BASE_URL, ANTHROPIC_MODEL',
      trans.__('any endpoint with the Messages API: Ollama, LiteLLM, a gateway')
    ],
    ['CLAUDE_CODE_USE_BEDROCK=1, AWS_REGION', trans.__('Amazon Bedrock')],
    [
      'CLAUDE_CODE_USE_VERTEX=1, CLOUD_ML_REGION, ANTHROPIC_VERTEX_PROJECT_ID',
      trans.__('Google Vertex AI')
    ]
  ];
  const body = ReactWidget.create(
    <div className="tk-Connect">
      {models !== null && (
        <p>
          <strong>{trans.__('Currently: %1.', models.label)}</strong>{' '}
          {say(models.hint, models.hint_sentence, trans)}
        </p>
      )}
      <p>
        {trans.__(
          'Add one of these to a file named .secrets.env in the root folder, as NAME=value lines, ' +
            'or to the server’s environment. Then start a new chat.'
        )}
      </p>
      <dl>
        {ways.map(([names, what]) => (
          <div key={names}>
            <dt>{names}</dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
      <p>
        {trans.__(
          'Keys are sent to the provider only. Kernels, notebooks and logs never get them.'
        )}
      </p>
    </div>
  );
  const settings = trans.__('Open settings');
  const answer = await showDialog({
    title: trans.__('Connect a model'),
    body,
    buttons: [
      Dialog.cancelButton({ label: settings }),
      Dialog.okButton({ label: trans.__('Close') })
    ]
  });
  if (answer.button.label === settings && services.commands.hasCommand('settingeditor:open')) {
    await services.commands.execute('settingeditor:open', { query: 'Claude' });
  }
}
