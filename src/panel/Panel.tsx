import { useMemo } from 'react';
import type { JSX } from 'react';

import { Asked } from './Asked';
import { Composer } from './Composer';
import { type IDesk, DeskProvider, useDesk, useSignal } from './desk';
import { Header } from './Header';
import { History } from './History';
import type { PanelModel } from './model';
import { Transcript } from './Transcript';
import type { ITurnActions } from './Turn';

/** The panel: header, transcript or history, and the box. */
export function Panel({ desk, model }: { desk: IDesk; model: PanelModel }): JSX.Element {
  return (
    <DeskProvider value={desk}>
      <Column model={model} />
    </DeskProvider>
  );
}

function Column({ model }: { model: PanelModel }): JSX.Element {
  const { preferences, trans } = useDesk();
  useSignal(model.changed);
  useSignal(preferences.changed);
  const { chat } = model;
  const actions = useMemo<ITurnActions>(
    () => ({
      edit: turn => model.edit(turn),
      approve: (turn, mode) => void model.approve(turn, mode),
      revise: turn => model.revise(turn),
      withdraw: turn => void model.chat.stop(turn.id),
      resend: (turn, change) => void model.resend(turn, change)
    }),
    [model]
  );
  return (
    <section className="tk-Chat" aria-label={trans.__('Chat with Claude')}>
      <Header
        chat={chat}
        showsHistory={model.showsHistory}
        onHistory={() => model.showHistory(!model.showsHistory)}
        onNew={() => model.open(null)}
      />
      {model.showsHistory ? (
        <History
          current={chat.id}
          onOpen={id => model.open(id)}
          onClose={() => model.closeHistory()}
          onRemoved={id => model.removed(id)}
        />
      ) : (
        <Transcript
          key={model.generation}
          chat={chat}
          actions={actions}
          onStart={text => void model.ask(text)}
        />
      )}
      <Asked chat={chat} />
      <Composer key={`box ${model.generation}`} model={model} />
    </section>
  );
}
