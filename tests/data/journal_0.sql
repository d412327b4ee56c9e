BEGIN TRANSACTION;
CREATE TABLE changes (
    entry INTEGER PRIMARY KEY REFERENCES entries (id) ON DELETE CASCADE,
    data TEXT NOT NULL
) STRICT;
INSERT INTO "changes" VALUES(1,'[{"action":"replace","cell":"a1","index":0,"index_before":0,"previous":null,"before":{"type":"code","source":"x = 1","id":"a1","metadata":{},"execution_count":null,"outputs":[{"output_type":"stream","name":"stdout","text":"gr\u00f6\u00dfe\n"}],"extra":{}},"after":{"type":"code","source":"x = 2","id":"a1","metadata":{},"execution_count":null,"outputs":[{"output_type":"stream","name":"stdout","text":"gr\u00f6\u00dfe\n"}],"extra":{}}}]');
INSERT INTO "changes" VALUES(2,'[{"action":"insert","cell":"b2","index":1,"index_before":null,"previous":"a1","before":null,"after":{"type":"code","source":"\u00fc = ''\u00e4''","id":"a1","metadata":{},"execution_count":null,"outputs":[{"output_type":"stream","name":"stdout","text":"gr\u00f6\u00dfe\n"}],"extra":{}}}]');
CREATE TABLE entries (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    time REAL NOT NULL,
    path TEXT NOT NULL,
    user TEXT NOT NULL,
    caller_key TEXT,
    author TEXT NOT NULL,
    tool TEXT NOT NULL,
    turn TEXT,
    kind TEXT NOT NULL,
    state TEXT NOT NULL,
    summary TEXT NOT NULL,
    note TEXT NOT NULL DEFAULT '',
    undone_by INTEGER
) STRICT;
INSERT INTO "entries" VALUES(1,1.79540863925452852251e+09,'one.ipynb','ana','mcp:k1','Claude','edit_cell',NULL,'change','done','Edited @a1','',NULL);
INSERT INTO "entries" VALUES(2,1.79540863926601505272e+09,'deep/two.ipynb','bob','rest:k2','bob','insert_cell','t9','change','done','Inserted @b2','',NULL);
INSERT INTO "entries" VALUES(3,1.79540863927400803565e+09,'one.ipynb','ana','mcp:k1','Claude','execute_cell',NULL,'run','done','Ran @a1','',NULL);
INSERT INTO "entries" VALUES(4,1.79540863928202033047e+09,'one.ipynb','ana','mcp:k1','Claude','edit_cell',NULL,'refused','failed','Refused','not allowed',NULL);
INSERT INTO "entries" VALUES(5,1.79540863928274178505e+09,'one.ipynb','ana','mcp:k1','Claude','edit_cell',NULL,'change','intended','cut by a kill','',NULL);
CREATE TABLE touched (
    entry INTEGER NOT NULL REFERENCES entries (id) ON DELETE CASCADE,
    cell TEXT NOT NULL,
    action TEXT NOT NULL
) STRICT;
INSERT INTO "touched" VALUES(1,'a1','replace');
INSERT INTO "touched" VALUES(2,'b2','insert');
CREATE INDEX entries_by_path ON entries (path, id);
CREATE INDEX entries_by_caller ON entries (user, caller_key, id);
CREATE INDEX entries_open ON entries (id) WHERE state = 'intended';
CREATE INDEX touched_by_entry ON touched (entry);
CREATE TRIGGER touched_first AFTER INSERT ON changes BEGIN
    DELETE FROM touched WHERE entry = new.entry;
    INSERT INTO touched
    SELECT new.entry, json_extract(value, '$.cell'), json_extract(value, '$.action')
    FROM json_each(new.data);
END;
CREATE TRIGGER touched_anew AFTER UPDATE OF data ON changes BEGIN
    DELETE FROM touched WHERE entry = new.entry;
    INSERT INTO touched
    SELECT new.entry, json_extract(value, '$.cell'), json_extract(value, '$.action')
    FROM json_each(new.data);
END;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('entries',5);
COMMIT;
