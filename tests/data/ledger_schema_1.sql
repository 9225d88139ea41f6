BEGIN TRANSACTION;
CREATE TABLE unacorda_accounts (
	dataset VARCHAR NOT NULL, 
	budget VARCHAR NOT NULL, 
	terms VARCHAR NOT NULL, 
	opened VARCHAR NOT NULL, 
	PRIMARY KEY (dataset)
);
INSERT INTO "unacorda_accounts" VALUES('visits','{"guarantee": "PureDP", "epsilon": "1"}','{"neighbors": "AddRemove", "unit": "person"}','2026-11-22T11:20:44.502534+00:00');
INSERT INTO "unacorda_accounts" VALUES('births','{"guarantee": "ZCDP", "rho": "1/2", "delta": "1/100000000"}','{}','2026-11-22T11:20:44.505535+00:00');
CREATE TABLE unacorda_entries (
	dataset VARCHAR NOT NULL, 
	sequence INTEGER NOT NULL, 
	state VARCHAR NOT NULL, 
	reservation INTEGER NOT NULL, 
	event VARCHAR NOT NULL, 
	request VARCHAR NOT NULL, 
	charge VARCHAR NOT NULL, 
	spent VARCHAR NOT NULL, 
	plan_digest VARCHAR NOT NULL, 
	salt VARCHAR NOT NULL, 
	analyst VARCHAR, 
	purpose VARCHAR, 
	time VARCHAR NOT NULL, 
	reproducible BOOLEAN NOT NULL, 
	previous VARCHAR NOT NULL, 
	digest VARCHAR NOT NULL, 
	PRIMARY KEY (dataset, sequence), 
	UNIQUE (dataset, reservation, state)
);
INSERT INTO "unacorda_entries" VALUES('visits',1,'reserved',1,'{"event": "Pure", "epsilon": 0.1}','{"guarantee": "PureDP", "epsilon": "3/10"}','{"guarantee": "PureDP", "epsilon": "3/10"}','{"guarantee": "PureDP", "epsilon": "3/10"}','ab12','0001','ana',NULL,'2026-11-22T11:20:44.517021+00:00',0,'1ef4e713b28f08e80ac608587ce1bdd5b82ac1ae48f339e938b58c2064d91105','478daf66bf60f026c2409fe4e49c14c8dc83d6c784810404abf62190b9ed8c76');
INSERT INTO "unacorda_entries" VALUES('visits',2,'committed',1,'','','','{"guarantee": "PureDP", "epsilon": "3/10"}','ab12','0001','ana',NULL,'2026-11-22T11:20:44.531741+00:00',0,'478daf66bf60f026c2409fe4e49c14c8dc83d6c784810404abf62190b9ed8c76','9ca960b424465f0d3d4ef774043aa2e3b5554f6eb3807587e2917746b5fb97ba');
INSERT INTO "unacorda_entries" VALUES('visits',3,'reserved',3,'{"event": "Pure", "epsilon": 0.1}','{"guarantee": "PureDP", "epsilon": "1/3"}','{"guarantee": "PureDP", "epsilon": "1/3"}','{"guarantee": "PureDP", "epsilon": "19/30"}','ab12','0001','ana',NULL,'2026-11-22T11:20:44.538557+00:00',0,'9ca960b424465f0d3d4ef774043aa2e3b5554f6eb3807587e2917746b5fb97ba','933debe268995950236e0530c55fd67767dfc8eecf5f2635a1adce54cc591dbc');
INSERT INTO "unacorda_entries" VALUES('births',1,'reserved',1,'{"event": "Pure", "epsilon": 0.1}','{"guarantee": "ZCDP", "rho": "1/4", "delta": "1/1000000000"}','{"guarantee": "ZCDP", "rho": "1/4", "delta": "1/1000000000"}','{"guarantee": "ZCDP", "rho": "1/4", "delta": "1/1000000000"}','ab12','0001','ana',NULL,'2026-11-22T11:20:44.552840+00:00',0,'4a172715914cce4d39ad5774453a06e7a2930715245faa5a82e37885cbf0e072','2ecb9312d93ef2754d75214f0e055e83604e8184bcfcf3c65c36b070ea770908');
CREATE TABLE unacorda_schema (
	version INTEGER NOT NULL, 
	PRIMARY KEY (version)
);
INSERT INTO "unacorda_schema" VALUES(1);
CREATE TRIGGER unacorda_entries_no_update BEFORE UPDATE ON unacorda_entries BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END;
CREATE TRIGGER unacorda_entries_no_delete BEFORE DELETE ON unacorda_entries BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END;
CREATE TRIGGER unacorda_accounts_no_update BEFORE UPDATE ON unacorda_accounts BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END;
CREATE TRIGGER unacorda_accounts_no_delete BEFORE DELETE ON unacorda_accounts BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END;
CREATE TRIGGER unacorda_schema_no_update BEFORE UPDATE ON unacorda_schema BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END;
CREATE TRIGGER unacorda_schema_no_delete BEFORE DELETE ON unacorda_schema BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END;
COMMIT;
