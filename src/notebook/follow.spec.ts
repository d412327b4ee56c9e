import { CommandRegistry } from '@lumino/commands';
import { Signal } from '@lumino/signaling';
import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import { nullTranslator } from '@jupyterlab/translation';

import type { IActivities } from './activities';
import { addFollow } from './follow';

const COMMAND = 'tk-ai:follow-agent';

/** A notebook with cells a, b and c, and what agents do in it. */
class Scene {
  readonly scrolled: number[] = [];
  readonly worked = new Signal<this, string>(this);
  readonly node = document.createElement('div');
  readonly widgetAdded = new Signal<this, NotebookPanel>(this);
  readonly commands = new CommandRegistry();
  isVisible = true;

  readonly panel = {
    content: {
      node: this.node,
      widgets: ['a', 'b', 'c'].map(id => ({ model: { id } })),
      scrollToItem: (place: number) => Promise.resolve(void this.scrolled.push(place))
    },
    isVisible: true
  };

  constructor() {
    const notebooks = {
      forEach: (done: (panel: NotebookPanel) => void) => done(this.panel as never),
      widgetAdded: this.widgetAdded
    };
    addFollow(
      { commands: this.commands } as unknown as JupyterFrontEnd,
      notebooks as unknown as INotebookTracker,
      { of: () => this } as unknown as IActivities,
      null,
      nullTranslator.load('')
    );
  }

  get isOn(): boolean {
    return this.commands.isToggled(COMMAND);
  }

  toggle(): Promise<void> {
    return this.commands.execute(COMMAND) as Promise<void>;
  }
}

describe('Follow the Agent', () => {
  it('is off, and scrolls to each cell that is changed, run or shown while it is on', async () => {
    const scene = new Scene();
    scene.worked.emit('a');
    expect([scene.isOn, scene.scrolled]).toEqual([false, []]);
    await scene.toggle();
    expect(scene.isOn).toBe(true);
    scene.worked.emit('c');
    scene.worked.emit('b');
    expect(scene.scrolled).toEqual([2, 1]);
    scene.worked.emit('gone');
    scene.panel.isVisible = false;
    scene.worked.emit('a');
    expect(scene.scrolled).toEqual([2, 1]);
    await scene.toggle();
    scene.panel.isVisible = true;
    scene.worked.emit('a');
    expect([scene.isOn, scene.scrolled]).toEqual([false, [2, 1]]);
  });

  it.each(['wheel', 'touchmove', 'pointerdown', 'keydown'])('ends at a %s', async act => {
    const scene = new Scene();
    await scene.toggle();
    scene.node.dispatchEvent(new Event('scroll'));
    scene.worked.emit('a');
    scene.node.dispatchEvent(new Event(act));
    scene.worked.emit('b');
    expect([scene.isOn, scene.scrolled]).toEqual([false, [0]]);
    await scene.toggle();
    scene.worked.emit('c');
    expect([scene.isOn, scene.scrolled]).toEqual([true, [0, 2]]);
  });
});
