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
  readonly changed = new Signal<this, void>(this);
  running: { cell: string; author: string }[] = [];
  marks = new Map<string, { steps: { entry: number }[] }>();
  shown: { cell: string } | null = null;
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

  constructor(setting = false) {
    const notebooks = {
      forEach: (done: (panel: NotebookPanel) => void) => done(this.panel as never),
      widgetAdded: this.widgetAdded
    };
    addFollow(
      { commands: this.commands } as unknown as JupyterFrontEnd,
      notebooks as unknown as INotebookTracker,
      { of: () => this } as unknown as IActivities,
      Promise.resolve({ composite: { followAgent: setting } } as never),
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

  change(cell: string, entry: number): void {
    this.marks.set(cell, { steps: [{ entry }] });
    this.changed.emit();
  }

  run(...cells: string[]): void {
    this.running = cells.map(cell => ({ cell, author: 'Claude' }));
    this.changed.emit();
  }
}

describe('Follow the Agent', () => {
  it('is off, and scrolls to each cell that is changed, run or shown while it is on', async () => {
    const scene = new Scene();
    scene.change('a', 1);
    expect([scene.isOn, scene.scrolled]).toEqual([false, []]);
    await scene.toggle();
    expect(scene.isOn).toBe(true);
    // What was changed before is not gone to.
    scene.changed.emit();
    scene.change('c', 2);
    scene.run('b');
    // The end of a run is no work on a cell.
    scene.run();
    expect(scene.scrolled).toEqual([2, 1]);
    scene.shown = { cell: 'a' };
    scene.changed.emit();
    scene.changed.emit();
    scene.shown = null;
    scene.changed.emit();
    expect(scene.scrolled.splice(2)).toEqual([0]);
    scene.change('gone', 3);
    scene.panel.isVisible = false;
    scene.change('a', 4);
    expect(scene.scrolled).toEqual([2, 1]);
    await scene.toggle();
    scene.panel.isVisible = true;
    scene.change('a', 5);
    expect([scene.isOn, scene.scrolled]).toEqual([false, [2, 1]]);
  });

  it.each(['wheel', 'touchmove', 'pointerdown', 'keydown'])('ends at a %s', async act => {
    const scene = new Scene();
    await scene.toggle();
    scene.node.dispatchEvent(new Event('scroll'));
    scene.change('a', 1);
    scene.node.dispatchEvent(new Event(act));
    scene.change('b', 2);
    expect([scene.isOn, scene.scrolled]).toEqual([false, [0]]);
    await scene.toggle();
    scene.change('c', 3);
    expect([scene.isOn, scene.scrolled]).toEqual([true, [0, 2]]);
  });

  it('is on from the start if the setting says so', async () => {
    const scene = new Scene(true);
    await new Promise(resolve => requestAnimationFrame(resolve));
    expect(scene.isOn).toBe(true);
  });
});
