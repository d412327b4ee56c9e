import { Notification } from '@jupyterlab/apputils';
import { nullTranslator } from '@jupyterlab/translation';
import { Signal } from '@lumino/signaling';

import { createStore } from '../state/app';
import { request } from '../testing/events';
import { notify } from './notifications';
import type { IPanelServices } from './panelServices';

/** The browser's own notifications. */
class Desktop {
  constructor(readonly message: string) {
    Desktop.shown.push(this);
  }
  onclick: () => void = () => undefined;
  close = jest.fn();

  static shown: Desktop[] = [];
  static permission: NotificationPermission = 'default';
  static requestPermission = jest.fn();
}

const store = createStore();
const happened = new Signal<object, object>({});
const showVisible = jest.fn();
const focus = jest.fn();
let hidden: boolean;

/** An agent asks; the toast that says so. */
function ask(): Notification.INotification {
  store.update(state => ({ ...state, requests: [request('p')] }));
  return Notification.manager.notifications[0] as Notification.INotification;
}

function actionsOf({ options }: Notification.INotification): string[] {
  return options.actions?.map(({ label }) => label) ?? [];
}

beforeAll(() => {
  const services = {
    chats: { happened },
    store,
    trans: nullTranslator.load('tk-ai-extension')
  } as unknown as IPanelServices;
  notify(services, { isSeen: () => false, showVisible, withChat: jest.fn() });
  jest.spyOn(document, 'hidden', 'get').mockImplementation(() => hidden);
  window.focus = focus;
});

beforeEach(() => {
  Object.assign(window, { Notification: Desktop });
  Desktop.permission = 'default';
  Desktop.shown = [];
  hidden = true;
  store.update(state => ({ ...state, requests: [] }));
  Notification.dismiss();
});

describe('a notification', () => {
  it('closes with its request, wherever that was answered', () => {
    Desktop.permission = 'granted';
    ask();
    expect(Notification.manager.notifications).toHaveLength(1);
    store.update(state => ({ ...state, requests: [] }));
    expect(Notification.manager.notifications).toHaveLength(0);
    expect(Desktop.shown[0]?.close).toHaveBeenCalled();
  });

  it('stays until it is seen if the window is hidden', () => {
    expect(ask().options.autoClose).toBe(false);
    store.update(state => ({ ...state, requests: [] }));
    hidden = false;
    expect(ask().options.autoClose).toBe(10_000);
  });

  it('asks for desktop notifications on a click only', () => {
    const toast = ask();
    expect(actionsOf(toast)).toEqual(['Show', 'Notify on the desktop']);
    expect(Desktop.requestPermission).not.toHaveBeenCalled();
    toast.options.actions?.[1]?.callback(new MouseEvent('click'));
    expect(Desktop.requestPermission).toHaveBeenCalled();
    expect(Desktop.shown).toEqual([]);
  });

  it('is on the desktop if that is allowed, and opens the panel', () => {
    Desktop.permission = 'granted';
    expect(actionsOf(ask())).toEqual(['Show']);
    const [note] = Desktop.shown;
    expect(note?.message).toBe('claude-code 2.1 needs your approval.');
    note?.onclick();
    expect(focus).toHaveBeenCalled();
    expect(showVisible).toHaveBeenCalled();
    expect(note?.close).toHaveBeenCalled();
  });

  it('is not on the desktop if the page is visible, or permission was denied', () => {
    Desktop.permission = 'denied';
    expect(actionsOf(ask())).toEqual(['Show']);
    hidden = false;
    Desktop.permission = 'granted';
    store.update(state => ({ ...state, requests: [] }));
    ask();
    expect(Desktop.shown).toEqual([]);
  });

  it('is a toast in a browser without desktop notifications', () => {
    Object.assign(window, { Notification: undefined });
    expect(actionsOf(ask())).toEqual(['Show']);
  });
});
