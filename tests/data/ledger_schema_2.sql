BEGIN TRANSACTION;
CREATE TABLE unacorda_accounts (
	dataset VARCHAR NOT NULL, 
	budget VARCHAR NOT NULL, 
	terms VARCHAR NOT NULL, 
	opened VARCHAR NOT NULL, 
	PRIMARY KEY (dataset)
);
INSERT INTO "unacorda_accounts" VALUES('visits','{"guarantee": "PureDP", "epsilon": "1"}','{"neighbors": "AddRemove", "unit": "person"}','2026-11-22T15:26:08.413484+00:00');
INSERT INTO "unacorda_accounts" VALUES('births','{"guarantee": "ZCDP", "rho": "1/2", "delta": "1/100000000"}','{"neighbors": "AddRemove", "unit": "person"}','2026-11-22T15:26:08.475770+00:00');
CREATE TABLE unacorda_entries (
	dataset VARCHAR NOT NULL, 
	sequence BIGINT NOT NULL, 
	state VARCHAR NOT NULL, 
	reservation BIGINT NOT NULL, 
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
	sub_account VARCHAR, 
	sub_spent VARCHAR, 
	PRIMARY KEY (dataset, sequence)
);
INSERT INTO "unacorda_entries" VALUES('visits',1,'opened',1,'','{"guarantee": "PureDP", "epsilon": "1/2"}','','{"guarantee": "PureDP", "epsilon": "0"}','','',NULL,NULL,'2026-11-22T15:26:08.424400+00:00',0,'442774531e67bab21dd037a8cf0757ba084f04ec8db8f88f1ca5c5d12b4d41a2','fc24c82eed960842bc8483f06fb54d35f5e7efc0e4e206713ea98e7e43534211','ana','{"guarantee": "PureDP", "epsilon": "0"}');
INSERT INTO "unacorda_entries" VALUES('visits',2,'reserved',2,'{"event": "Laplace", "noise_multiplier": "10/3"}','{"guarantee": "PureDP", "epsilon": "1/10"}','{"guarantee": "PureDP", "epsilon": "1/10"}','{"guarantee": "PureDP", "epsilon": "1/10"}','ab12','0001ff','ana',NULL,'2026-11-22T15:26:08.428655+00:00',0,'fc24c82eed960842bc8483f06fb54d35f5e7efc0e4e206713ea98e7e43534211','2e909f7be02f14d0dff23a8e5b8471057a2552f5fbc319ec445398216580f6f3','ana','{"guarantee": "PureDP", "epsilon": "1/10"}');
INSERT INTO "unacorda_entries" VALUES('visits',3,'committed',2,'','','','{"guarantee": "PureDP", "epsilon": "1/10"}','ab12','0001ff','ana',NULL,'2026-11-22T15:26:08.429839+00:00',0,'2e909f7be02f14d0dff23a8e5b8471057a2552f5fbc319ec445398216580f6f3','d2d6fb6d2dc2d5fd33ddb8922544c4cb279d29e925d5e0a3ab04a131b8226e26','ana','{"guarantee": "PureDP", "epsilon": "1/10"}');
INSERT INTO "unacorda_entries" VALUES('visits',4,'reserved',4,'{"event": "Laplace", "noise_multiplier": "10/3"}','{"guarantee": "PureDP", "epsilon": "1/5"}','{"guarantee": "PureDP", "epsilon": "1/5"}','{"guarantee": "PureDP", "epsilon": "3/10"}','ab12','0001ff','ana',NULL,'2026-11-22T15:26:08.443761+00:00',0,'d2d6fb6d2dc2d5fd33ddb8922544c4cb279d29e925d5e0a3ab04a131b8226e26','589fba4a2dd86fb93909cdaa0008dbbba39d96ec90cd1049b1839cd174344f2e',NULL,NULL);
INSERT INTO "unacorda_entries" VALUES('visits',5,'voided',4,'','','','{"guarantee": "PureDP", "epsilon": "1/10"}','ab12','0001ff','ana',NULL,'2026-11-22T15:26:08.455886+00:00',0,'589fba4a2dd86fb93909cdaa0008dbbba39d96ec90cd1049b1839cd174344f2e','57da2520445df6965f52c7aec4cfe4cdd3a259e13658c8ac9278d2594854dd1a',NULL,NULL);
INSERT INTO "unacorda_entries" VALUES('visits',6,'reserved',6,'{"event": "Laplace", "noise_multiplier": "10/3"}','{"guarantee": "PureDP", "epsilon": "1/3"}','{"guarantee": "PureDP", "epsilon": "1/3"}','{"guarantee": "PureDP", "epsilon": "13/30"}','ab12','0001ff','ana',NULL,'2026-11-22T15:26:08.459786+00:00',0,'57da2520445df6965f52c7aec4cfe4cdd3a259e13658c8ac9278d2594854dd1a','34a0781c6b87a5cc675e69e35264b69a90f073a4d3a2ca10d568be045966f5e8',NULL,NULL);
INSERT INTO "unacorda_entries" VALUES('births',1,'reserved',1,'{"event": "Laplace", "noise_multiplier": "10/3"}','{"guarantee": "ZCDP", "rho": "1/10", "delta": "0"}','{"guarantee": "ZCDP", "rho": "1/10", "delta": "0"}','{"guarantee": "ZCDP", "rho": "1/10", "delta": "0"}','ab12','0001ff','ana','report','2026-11-22T15:26:08.484048+00:00',0,'a8ad1a39b8acca6c8b6a32cc91d353c333c09b450d3edbc4a3a91d3ed78a5125','593c24197faeac1b9fde4b7ffaec54b8a1a823022c67eb077b83d7eb23169f0f',NULL,NULL);
CREATE TABLE unacorda_schema (
	version INTEGER NOT NULL, 
	PRIMARY KEY (version)
);
INSERT INTO "unacorda_schema" VALUES(2);
CREATE UNIQUE INDEX unacorda_ends ON unacorda_entries (dataset, reservation) WHERE state IN ('committed', 'voided');
CREATE UNIQUE INDEX unacorda_openings ON unacorda_entries (dataset, sub_account) WHERE state = 'opened';
CREATE INDEX unacorda_sub_accounts ON unacorda_entries (dataset, sub_account, sequence) WHERE sub_account IS NOT NULL;
CREATE TRIGGER unacorda_schema_no_update BEFORE UPDATE ON unacorda_schema BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END;
CREATE TRIGGER unacorda_schema_no_delete BEFORE DELETE ON unacorda_schema BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END;
CREATE TRIGGER unacorda_accounts_no_update BEFORE UPDATE ON unacorda_accounts BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END;
CREATE TRIGGER unacorda_accounts_no_delete BEFORE DELETE ON unacorda_accounts BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END;
CREATE TRIGGER unacorda_entries_no_update BEFORE UPDATE ON unacorda_entries BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END;
CREATE TRIGGER unacorda_entries_no_delete BEFORE DELETE ON unacorda_entries BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END;
COMMIT;
