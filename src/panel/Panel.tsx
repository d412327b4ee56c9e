import { useMemo } from 'react';
import type { JSX } from 'react';

import type { AppStore, IPanelState } from '../state/app';
import { Composer } from './Composer';
import type { PanelController } from './controller';
import { Header } from './Header';
import { History } from './History';
import type { IPanelServices } from './panelServices';
import { Questions } from './QuestionForm';
import { Requests } from './Requests';
import { ServicesProvider, useSelector, useServices } from './services';
import { Transcript } from './Transcript';

interface IProps {
  /** The state. */
  store: AppStore;
  /** The services, apart from the state. */
  services: Omit<IPanelServices, 'store'>;
  controller: PanelController;
}

/** The panel: header, transcript or history, and composer. */
export function Panel({ store, services, controller }: IProps): JSX.Element {
  const all = useMemo(() => ({ ...services, store, controller }), [services, store, controller]);
  return (
    <ServicesProvider value={all}>
      <Present />
    </ServicesProvider>
  );
}

/** The column, while the panel has a state. */
function Present(): JSX.Element | null {
  const { controller } = useServices();
  const panel = useSelector(state => state.panels[controller.key]);
  return panel === undefined ? null : <Column panel={panel} />;
}

interface IColumnProps {
  panel: IPanelState;
}

function Column({ panel }: IColumnProps): JSX.Element {
  const { controller, trans } = useServices();
  return (
    <section className="tk-Chat" aria-label={trans.__('Chat with Claude')}>
      <Header
        chat={panel.chat}
        showsHistory={panel.showsHistory}
        onHistory={() => controller.showHistory(!panel.showsHistory)}
        onNew={() => controller.open(null)}
      />
      {panel.showsHistory && <History chat={panel.chat} />}
      <Transcript key={panel.generation} chat={panel.chat} hidden={panel.showsHistory} />
      <Requests chat={panel.chat} />
      <Questions key={`questions ${panel.generation}`} chat={panel.chat} />
      <Composer key={`box ${panel.generation}`} panel={panel} />
    </section>
  );
}
