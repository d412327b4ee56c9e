import { lazy, Suspense, useMemo } from 'react';
import type { JSX } from 'react';

import type { AppStore, IPanelState } from '../state/app';
import { AgentRequests } from './AgentRequests';
import { Composer } from './Composer';
import type { PanelController } from './controller';
import { Header } from './Header';
import { type IPanelServices, ServicesProvider, useSelector, useServices } from './services';
import { Transcript } from './Transcript';
import type { ITurnActions } from './Turn';

const History = lazy(() =>
  import(/* webpackChunkName: "history" */ './History').then(({ History: loaded }) => ({
    default: loaded
  }))
);

interface IProps {
  /** The state. */
  store: AppStore;
  /** The services, apart from the state. */
  services: Omit<IPanelServices, 'store'>;
  controller: PanelController;
}

/** The panel: header, transcript or history, and composer. */
export function Panel({ store, services, controller }: IProps): JSX.Element {
  const all = useMemo(() => ({ ...services, store }), [services, store]);
  return (
    <ServicesProvider value={all}>
      <Present controller={controller} />
    </ServicesProvider>
  );
}

/** The column, while the panel has a state. */
function Present({ controller }: { controller: PanelController }): JSX.Element | null {
  const panel = useSelector(state => state.panels[controller.key]);
  return panel === undefined ? null : <Column controller={controller} panel={panel} />;
}

interface IColumnProps {
  controller: PanelController;
  panel: IPanelState;
}

function Column({ controller, panel }: IColumnProps): JSX.Element {
  const { trans } = useServices();
  const actions = useMemo<ITurnActions>(
    () => ({
      edit: turn => controller.edit(turn),
      approve: (turn, mode) => void controller.approve(turn, mode),
      revise: turn => controller.revise(turn),
      withdraw: turn => void controller.chat.stop(turn.id),
      resend: (turn, change) => void controller.resend(turn, change),
      answer: (request, answer, message) => controller.chat.answer(request, answer, message),
      undo: (notebook, undo) => controller.chat.undo(notebook, undo),
      restore: turn => controller.restoreTo(turn),
      steer: turn => controller.chat.steer(turn.id),
      netChanges: turn => controller.chat.netChanges(turn.id),
      suggest: (text, about) => controller.write(text, about)
    }),
    [controller]
  );
  return (
    <section className="tk-Chat" aria-label={trans.__('Chat with Claude')}>
      <Header
        chat={panel.chat}
        showsHistory={panel.showsHistory}
        onHistory={() => controller.showHistory(!panel.showsHistory)}
        onNew={() => controller.open(null)}
      />
      {panel.showsHistory ? (
        <Suspense fallback={<div className="tk-History" />}>
          <History
            chat={panel.chat}
            onOpen={id => controller.open(id)}
            onClose={() => controller.closeHistory()}
            onRemoved={id => controller.removed(id)}
          />
        </Suspense>
      ) : (
        <Transcript
          key={panel.generation}
          chat={panel.chat}
          actions={actions}
          onStart={(text, about) => void controller.ask(text, about)}
          onReconnect={() => controller.chat.reconnect()}
          onReload={() => void controller.chat.load()}
          onDismiss={() => controller.chat.dismiss()}
        />
      )}
      <AgentRequests chat={panel.chat} />
      <Composer key={`box ${panel.generation}`} controller={controller} panel={panel} />
    </section>
  );
}
