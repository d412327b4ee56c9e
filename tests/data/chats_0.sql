BEGIN TRANSACTION;
CREATE TABLE answering (
    chat TEXT PRIMARY KEY REFERENCES chats (id) ON DELETE CASCADE,
    server TEXT NOT NULL
) STRICT;
CREATE TABLE chats (
    id TEXT PRIMARY KEY,
    user TEXT NOT NULL,
    title TEXT NOT NULL,
    notebook TEXT,
    session TEXT,
    created REAL NOT NULL,
    updated REAL NOT NULL
) STRICT;
INSERT INTO "chats" VALUES('cccccccccccccccccccccccc','ana','A chat','one.ipynb','s-1',1.79540863928527164462e+09,1.79540863928527164462e+09);
INSERT INTO "chats" VALUES('dddddddddddddddddddddddd','bob','Another',NULL,NULL,1.7954086392903802395e+09,1.7954086392903802395e+09);
CREATE TABLE events (
    chat TEXT NOT NULL REFERENCES chats (id) ON DELETE CASCADE,
    id INTEGER NOT NULL,
    turn TEXT NOT NULL,
    time REAL NOT NULL,
    kind TEXT NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (chat, id)
) STRICT;
INSERT INTO "events" VALUES('cccccccccccccccccccccccc',1,'t1',1.0,'message','{"text": "hi", "notebook": "one.ipynb", "replaces": null}');
INSERT INTO "events" VALUES('cccccccccccccccccccccccc',2,'t1',2.0,'text','{"block": 0, "start": 0, "text": "Hello \ud83d"}');
INSERT INTO "events" VALUES('cccccccccccccccccccccccc',3,'t1',3.0,'done','{"end": "complete", "text": "Hello"}');
CREATE INDEX chats_by_user ON chats (user, updated);
COMMIT;
