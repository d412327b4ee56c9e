import type { ISettingRegistry } from '@jupyterlab/settingregistry';
import { type ISignal, Signal } from '@lumino/signaling';

import type { Mode } from '../api/events';

/** What a person may choose in the Settings Editor; `schema/panel.json` describes each. */
export interface IPreferences {
  mode: Mode;
  model: string;
  sendWith: 'Enter' | 'Accel Enter';
  activeCell: boolean;
  starters: boolean;
  showThinking: boolean;
  showCost: boolean;
  notify: boolean;
  notifyAfter: number;
}

export const DEFAULTS: IPreferences = {
  mode: 'ask',
  model: '',
  sendWith: 'Enter',
  activeCell: true,
  starters: true,
  showThinking: false,
  showCost: true,
  notify: true,
  notifyAfter: 30
};

/** The settings as they are now. */
export class Preferences {
  get now(): IPreferences {
    return this._now;
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Takes the settings from the registry, and whatever they become. */
  follow(settings: ISettingRegistry.ISettings): void {
    const take = (): void => {
      this._now = { ...DEFAULTS, ...(settings.composite as Partial<IPreferences>) };
      this._changed.emit();
    };
    settings.changed.connect(take);
    take();
  }

  private _now = DEFAULTS;
  private _changed = new Signal<this, void>(this);
}
